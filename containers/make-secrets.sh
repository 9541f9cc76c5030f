#!/bin/sh
# Makes the secrets that docker-compose.yml asks for and keeps them in .env, readable by its owner only. What is there stays:
# the database was made with its password, and what was encrypted can be read with its key alone. Keep a copy of the file.
set -eu
cd "$(dirname "$0")/.."
umask 077
[ -e .env ] || : >.env
chmod 600 .env

random() {
  head -c 32 /dev/urandom | base64 | tr -d '\n'
}

add() {
  if grep -q "^$1=..*" .env; then
    echo "$1 is in .env already and stays as it is"
  else
    # Begins a line of its own where the file's last one has no end.
    [ -z "$(tail -c 1 .env)" ] || echo >>.env
    printf '%s=%s\n' "$1" "$2" >>.env
    echo "$1 was made and is kept in .env"
  fi
}

# Part of a URL: without the signs that would have to be escaped there.
add STACK_POSTGRES_PASSWORD "$(random | tr '+/' '-_' | tr -d '=')"
add STACK_CREDENTIALS_KEYS "$(date +%Y):$(random)"
echo 'Next: docker compose up --build --wait'
