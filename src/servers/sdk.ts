/** The MCP SDK's client side. */
export type Sdk = typeof import("@modelcontextprotocol/client");

/** Loads the SDK, which takes longer than starting a process; so it is loaded while a server is starting. */
export function loadSdk(): Promise<Sdk> {
  return import("@modelcontextprotocol/client");
}
