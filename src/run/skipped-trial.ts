import { McpvalsError } from "../core/errors/error.ts";

/** Ends a trial that is left out on purpose; the message is the reason. */
export class SkippedTrial extends McpvalsError {}
