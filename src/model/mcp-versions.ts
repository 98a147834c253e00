/** The version of MCP that has no `initialize`: every request names its version. */
export const modernVersion = "2026-07-28";

/** The versions that begin with `initialize`, the newest first. */
export const legacyVersions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"] as const;
