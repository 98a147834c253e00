/**
 * Whether a status says nothing about what was asked for: the server or something before it broke, was too slow or too busy
 * (408, 425, 429, 5xx).
 */
export function isNoAnswer(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429;
}
