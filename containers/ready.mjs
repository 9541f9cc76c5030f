// Health check of a container: exits with code 0 if the part on the given loopback port is ready. `docker inspect` shows
// its output for a part that is not ready.
//   node containers/ready.mjs 8080
const TIMEOUT_MS = 2500;

try {
  const response = await fetch(`http://127.0.0.1:${process.argv[2]}/health/ready`, {
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  process.stdout.write(`${await response.text()}\n`);
  process.exitCode = response.ok ? 0 : 1;
} catch (error) {
  process.stdout.write(`${error.cause?.message ?? error.message}\n`);
  process.exitCode = 1;
}
