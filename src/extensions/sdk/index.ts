/**
 * `mcpvals/extension`: the SDK for extensions, programs that add steps to tasks. An extension is a definition,
 * `export const extension = defineExtension({ … })`, and a program of two lines that imports it and calls
 * `await extension.serve()`.
 */
export { type Extension, defineExtension } from "./serve.ts";
export {
  EnvironmentError,
  type ExtensionDefinition,
  type Log,
  type LogLevel,
  type Operation,
  operation,
  type OperationDefinition,
  OperationFailed,
  type OperationOutcome,
  type OperationRun,
  type StartContext,
} from "./operation.ts";
export type { ExtensionPhase } from "../../model/extension.ts";
export type { ExtensionManifest, OperationDeclaration } from "../manifest.ts";
export type { OperationContext } from "../protocol.ts";
export type { Json, JsonObject } from "../../base/json.ts";
