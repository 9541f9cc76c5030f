# One image for every part: the gateway by default, the others by their command. Built on Debian's slim Node, which both
# stages share, so that what npm installs fits what runs.
FROM node:24-bookworm-slim AS base
WORKDIR /app

# All packages, those of development included.
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

# What runs: without Postgres from npm (optional packages, 100 MB), which serves `npm start` only, and without the packages' sources.
FROM packages AS runtime
RUN npm prune --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
 && find node_modules \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete

FROM base
ENV NODE_ENV=production PATH=/app/node_modules/.bin:$PATH
COPY --from=runtime /app ./
COPY shared/postgres/migrations shared/postgres/migrations
COPY containers/ready.mjs containers/
COPY examples/webhook-receiver.mjs examples/
COPY --from=build /app/dist dist
# By number, so that orchestrators can tell that it is not root. The files stay root's: the process cannot change them.
USER 1000:1000
EXPOSE 8080 8081 8082
# The exec form: the process is number 1 and gets SIGTERM itself, without npm or a shell between.
CMD ["node", "dist/gateway/main.js"]
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["node", "containers/ready.mjs", "8080"]
