/** The MCP SDK's client side. */
export type Sdk = typeof import("@modelcontextprotocol/client");

/** Loads the SDK. The first time this blocks for a while, so whatever can go on meanwhile has to be started before. */
export function loadSdk(): Promise<Sdk> {
  return import("@modelcontextprotocol/client");
}
