/**
 * `mcpvals/extension`: for writing an extension, a program that adds steps to tasks. An extension is a definition,
 * `export const extension = defineExtension({ … })`, and a program of two lines that imports it and calls
 * `await extension.serve()`.
 */
export { type Extension, defineExtension } from "./serve.ts";
export type { ExtensionDefinition } from "./operation.ts";
export { EnvironmentError } from "./operation.ts";
export { type Operation, type OperationDefinition, operation } from "./operation.ts";
export {
  type Log,
  type LogLevel,
  OperationFailed,
  type OperationOutcome,
  type OperationRun,
  type StartContext,
} from "./operation.ts";
export type {
  ExtensionManifest,
  ExtensionPhase,
  OperationDeclaration,
} from "../core/formats/extension/manifest.ts";
export type { OperationContext } from "../core/formats/extension/protocol.ts";
export type { Json, JsonObject } from "../core/formats/json.ts";
