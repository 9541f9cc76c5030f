import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const KAFKA_VERSION = '4.4.0';
const CACHE_DIR = path.join(os.homedir(), '.cache', 'sluice-test');

/**
 * Directory of Apache Kafka's server and its dependencies, outside the repository, kept between
 * runs.
 */
export const KAFKA_JARS_DIR = path.join(CACHE_DIR, `kafka-${KAFKA_VERSION}`);

/** Directory of Kafka's command line tools, which need the server's jars too. */
export const KAFKA_TOOLS_DIR = path.join(CACHE_DIR, `kafka-tools-${KAFKA_VERSION}`);

const SERVER = `<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.5</version></dependency>`;

const TOOLS = `<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>${KAFKA_VERSION}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>`;

const run = promisify(execFile);

/**
 * Checks that a broker can be started: Java 17 or later, and the jars or Maven. Resolves with
 * Java's version; throws the reason otherwise.
 */
export async function prepareKafka(): Promise<number> {
  const java = await javaVersion();
  await fetchOnce(KAFKA_JARS_DIR, SERVER);
  return java;
}

/** Checks the same as {@link prepareKafka}, also for Kafka's command line tools. */
export async function prepareKafkaTools(): Promise<void> {
  await prepareKafka();
  await fetchOnce(KAFKA_TOOLS_DIR, TOOLS);
}

async function fetchOnce(directory: string, dependencies: string): Promise<void> {
  if (existsSync(directory)) return;
  try {
    await run('mvn', ['-version']);
  } catch {
    throw new Error('maven is not installed');
  }
  await fetchJars(directory, dependencies);
}

async function javaVersion(): Promise<number> {
  let text: string;
  try {
    text = (await run('java', ['-version'])).stderr;
  } catch {
    throw new Error('java is not installed');
  }
  const major = Number(/version "(\d+)/.exec(text)?.[1] ?? 0);
  if (major < 17) throw new Error(`java is too old (${text.split('\n')[0]})`);
  return major;
}

/**
 * Downloads the jars (the server's: 44 MB) into a temporary directory and renames it, so that
 * concurrent runs do not conflict.
 */
async function fetchJars(directory: string, dependencies: string): Promise<void> {
  await mkdir(CACHE_DIR, { recursive: true });
  const work = await mkdtemp(path.join(CACHE_DIR, 'download-'));
  try {
    const pom = path.join(work, 'pom.xml');
    const jars = path.join(work, 'jars');
    await writeFile(pom, projectOf(dependencies));
    await run('mvn', [
      ...['-q', '-B', '-ntp', '-f', pom],
      'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies',
      '-DincludeScope=runtime',
      `-DoutputDirectory=${jars}`,
    ]);
    await rename(jars, directory).catch((error: unknown) => {
      if (!existsSync(directory)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function projectOf(dependencies: string): string {
  return `<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>sluice</groupId><artifactId>test-kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    ${dependencies}
  </dependencies>
</project>
`;
}
