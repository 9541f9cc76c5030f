/** Prints a line of JSON every 10 ms: this process's time from every clock API. */
setInterval(() => {
  console.log(
    JSON.stringify({
      now: Date.now(),
      made: new Date().toISOString(),
      called: Date.parse(Date()),
      sinceStart: performance.now(),
      given: Number(new Date(0)),
      isDate: new Date() instanceof Date && new Date().constructor === Date,
    }),
  );
}, 10);
