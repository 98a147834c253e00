/** What a bridge asks to speak, in the `Upgrade` header. */
export const bridgeProtocol = "mcpvals-bridge";

/** The variable that tells a bridge where the gateway is. It holds a secret, which a command line would show to everybody. */
export const bridgeVariable = "MCPVALS_BRIDGE_URL";
