import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

/**
 * Compiles the schema at a pointer (such as `#/components/schemas/Agent`) of a document, or the
 * document itself. Returns a validator.
 */
export function compileSchema(document: object, pointer = '#'): ValidateFunction {
  let ajv = compilers.get(document);
  if (!ajv) {
    ajv = new Ajv2020({ strict: false, allErrors: true });
    formats.default(ajv);
    ajv.addSchema(document, 'document');
    compilers.set(document, ajv);
  }
  return ajv.compile({ $ref: `document${pointer}` });
}

/** One compiler per document, because compilation is slow. */
const compilers = new WeakMap<object, Ajv2020>();

/** Compiles a JSON Schema of draft 7 that declares its own `$schema`. Returns a validator. */
export function compileDraft7(schema: object): ValidateFunction {
  const ajv = new Ajv({ strict: false });
  formats.default(ajv);
  return ajv.compile(schema);
}

/** Returns the violations of a schema as text; empty if the value is valid. */
export function schemaErrors(validate: ValidateFunction, value: unknown): string[] {
  return validate(value)
    ? []
    : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
