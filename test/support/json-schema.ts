import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

/** A validator of the schema at a pointer (`#/components/schemas/Agent`) of a document, or of the document as a schema. */
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

/** One for each document, as compiling takes long. */
const compilers = new WeakMap<object, Ajv2020>();

/** The same for a schema of draft 7, which names itself. */
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
