/** A text that the product wrote, and its location. */
export interface Written {
  readonly where: string;
  readonly bytes: Buffer;
}

/** A secret as text. If it is base64 of bytes, these bytes are searched for too. */
export interface Planted {
  readonly name: string;
  readonly text: string;
  readonly decoded?: Buffer;
}

/**
 * Returns the places that contain a secret, in clear or in another notation: `name in where, as
 * form`.
 */
export function findPlanted(written: readonly Written[], planted: readonly Planted[]): string[] {
  const forms = planted.flatMap(formsOf);
  return written.flatMap(({ where, bytes }) =>
    forms.flatMap(({ name, form, sought }) =>
      bytes.includes(sought) ? [`${name} in ${where}, as ${form}`] : [],
    ),
  );
}

function formsOf({ name, text, decoded }: Planted) {
  const clear = Buffer.from(text);
  const of = (bytes: Buffer, which: string) => [
    { name, form: which, sought: bytes },
    ...(['hex', 'HEX'] as const).map((form) => {
      const hex = bytes.toString('hex');
      return {
        name,
        form: `${form} of ${which}`,
        sought: Buffer.from(form === 'hex' ? hex : hex.toUpperCase()),
      };
    }),
    // Base64 of a longer text depends on the secret's offset modulo 3. For each of the 3 offsets
    // the middle is constant.
    ...[0, 1, 2].flatMap((before) =>
      (['base64', 'base64url'] as const).map((form) => {
        const whole = Buffer.concat([Buffer.alloc(before), bytes]).toString(form);
        const sought = Buffer.from(
          whole
            .slice(before === 0 ? 0 : 4)
            .replace(/=*$/, '')
            .slice(0, -2),
        );
        return { name, form: `${form} of ${which}`, sought };
      }),
    ),
  ];
  return [...of(clear, 'the text'), ...(decoded ? of(decoded, 'the bytes') : [])];
}
