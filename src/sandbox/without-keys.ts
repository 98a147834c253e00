/**
 * A filter of system calls for bubblewrap's `--seccomp`: the keyrings of the kernel, which belong to the user and are in no
 * namespace, are not there. On processors that are not listed it allows everything.
 */
export function withoutKeys(): Buffer {
  const tests = calls.flatMap(({ architecture, numbers }) => testsOf(architecture, numbers));
  return Buffer.concat([load(architectureAt), ...tests, end(allow)]);
}

/** Numbers of add_key, request_key and keyctl; with the bit of the x32 variant taken away. */
const calls: readonly { readonly architecture: number; readonly numbers: readonly number[] }[] = [
  { architecture: 0xc000003e, numbers: [248, 249, 250] }, // x86-64
  { architecture: 0x40000003, numbers: [286, 287, 288] }, // 32 bit on it
  { architecture: 0xc00000b7, numbers: [217, 218, 219] }, // arm64
  { architecture: 0x40000028, numbers: [309, 310, 311] }, // 32 bit on it
];

/** Offsets in `struct seccomp_data`. */
const numberAt = 0;
const architectureAt = 4;
const allow = 0x7fff0000;
/** As where the kernel has no such call: ENOSYS. */
const notThere = 0x00050000 | 38;
const x32Bit = 0x40000000;

/** Skipped as a whole when the architecture is another one. */
function testsOf(architecture: number, numbers: readonly number[]): readonly Buffer[] {
  const checks = numbers.map((number, index) => equal(number, numbers.length - index, 0));
  const body = [load(numberAt), and(~x32Bit >>> 0), ...checks, end(allow), end(notThere)];
  return [equal(architecture, 0, body.length), ...body];
}

/** Instructions of the classic Berkeley packet filter. */
const load = (offset: number): Buffer => instruction(0x20, offset);
const and = (mask: number): Buffer => instruction(0x54, mask);
const end = (action: number): Buffer => instruction(0x06, action);
/** `then` and `otherwise` are how many instructions are skipped. */
const equal = (value: number, then: number, otherwise: number): Buffer =>
  instruction(0x15, value, then, otherwise);

function instruction(code: number, value: number, then = 0, otherwise = 0): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(then, 2);
  bytes.writeUInt8(otherwise, 3);
  bytes.writeUInt32LE(value, 4);
  return bytes;
}
