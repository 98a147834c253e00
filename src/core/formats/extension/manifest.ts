import type { JsonObject } from "../json-value.ts";

/** The version of the JSON-RPC protocol that host and extensions speak. */
export const extensionProtocolVersion = "0.0.1";

/** Phases of a task in which an operation can be used. */
export const extensionPhases = ["setup", "verify", "cleanup"] as const;
export type ExtensionPhase = (typeof extensionPhases)[number];

/** `json-rpc`: one process for many operations, one message a line; `one-shot`: one process an operation. */
export type ExtensionProtocol = "json-rpc" | "one-shot";

/** What an extension says of itself, in `extension.yaml` or when it is asked. */
export interface ExtensionManifest {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  readonly protocol: ExtensionProtocol;
  /** Path of the program in its folder; absent: named as the extension, or as the release's file. */
  readonly program?: string;
  /** Programs that it needs, by name or path; absent: none. */
  readonly requires?: readonly { readonly command: string }[];
  readonly operations: Readonly<Record<string, OperationDeclaration>>;
}

/** One thing that an extension can do. */
export interface OperationDeclaration {
  readonly description?: string;
  /** JSON Schema of its arguments, an object. */
  readonly params: JsonObject;
  /** At least one. An extension that says nothing of them means all. */
  readonly phases: readonly ExtensionPhase[];
}
