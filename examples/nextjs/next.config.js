/** mcpvals reads files of its package, so it stays a package. */
export default { serverExternalPackages: ["mcpvals"] };
