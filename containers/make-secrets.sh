#!/bin/sh
# Generates the secrets that docker-compose.yml requires into .env, readable only by its owner. Existing secrets stay, because
# the database has its password and stored credentials need their key. Keep a copy of the file.
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
    echo "$1 is already in .env and was not changed"
  else
    # Ends the last line of the file if it has no newline.
    [ -z "$(tail -c 1 .env)" ] || echo >>.env
    printf '%s=%s\n' "$1" "$2" >>.env
    echo "$1 was generated and stored in .env"
  fi
}

# The password is part of a URL, so it contains no characters that need escaping.
add STACK_POSTGRES_PASSWORD "$(random | tr '+/' '-_' | tr -d '=')"
add STACK_CREDENTIALS_KEYS "$(date +%Y):$(random)"
echo 'Next: docker compose up --build --wait'
