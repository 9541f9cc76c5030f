# One image for all parts: the gateway by default, the others by their command. Both stages use Debian's slim Node, so that
# installed packages match the runtime.
FROM node:24-bookworm-slim AS base
WORKDIR /app

# All packages, including development dependencies.
FROM base AS packages
COPY package.json package-lock.json ./
COPY cli/package.json cli/bin.js cli/
RUN npm ci --ignore-scripts --no-audit --no-fund

FROM packages AS build
COPY tsconfig.json tsconfig.build.json ./
COPY shared shared
COPY gateway gateway
COPY admin admin
COPY workers workers
COPY embedded embedded
COPY cli cli
RUN npm run --silent build && rm -rf dist/embedded && find dist -name '*.map' -delete && rm -f dist/.tsbuildinfo

# The runtime: without Postgres from npm (optional, 100 MB), which only `npm start` needs, and without package sources.
FROM packages AS runtime
RUN npm prune --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
 && find node_modules \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete

FROM base
ENV NODE_ENV=production SLUICE_COMMAND=sluice PATH=/app/node_modules/.bin:$PATH
COPY --from=runtime /app ./
COPY shared/postgres/migrations shared/postgres/migrations
COPY containers/ready.mjs containers/
COPY examples/webhook-receiver.mjs examples/
COPY --from=build /app/dist dist
# A numeric user, so that orchestrators can verify that it is not root. Root owns the files, so the process cannot change them.
USER 1000:1000
EXPOSE 8080 8081 8082 9464
# The exec form, so that the process receives SIGTERM directly, without npm or a shell.
CMD ["node", "dist/gateway/main.js"]
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["node", "containers/ready.mjs", "8080"]
