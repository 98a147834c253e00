/** Largest answer of an extension, in bytes. */
export const largestAnswer: number = 10 * 1024 * 1024;
