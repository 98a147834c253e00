/** About so many tokens of a model JSON takes: four characters each. */
export function estimateTokens(json: unknown): number {
  return Math.ceil(JSON.stringify(json).length / 4);
}
