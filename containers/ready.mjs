// The health check of a container: exits 0 when the part that listens on the given port of loopback is ready. What it
// prints is what `docker inspect` shows of a part that is not.
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
