/** Prints a line of JSON every few milliseconds: what this process takes the time to be, by every way of asking. */
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
