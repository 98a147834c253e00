import { getHeapStatistics } from "node:v8";
import { McpvalsError } from "../core/errors/error.ts";
import { JsonMeter } from "../core/formats/read-json.ts";

/** Most levels of lists and objects in one record: those of the deepest message, and what it stands in. */
const mostLevels = 500;

/**
 * What is left of the memory for a run that is read back. A run's folder can come from anywhere, and one of a few megabytes can
 * have values that take a hundred times as much.
 */
export class ReadBudget {
  #left = getHeapStatistics().heap_size_limit / 2;

  /** Reads JSON. Throws `store/corrupt` for what would take more than is left or is nested too deeply, and an Error for what is none. */
  parse(json: Uint8Array): unknown {
    const { deepest, weight } = new JsonMeter().push(json);
    this.#left -= weight;
    if (this.#left < 0) {
      throw new McpvalsError("store/corrupt", "the run is too large to be read into memory", {
        hint: "Give Node more: NODE_OPTIONS=--max-old-space-size=MEGABYTES.",
      });
    }
    if (deepest > mostLevels) {
      throw new McpvalsError(
        "store/corrupt",
        `a record of the run is nested more than ${mostLevels} levels deep`,
      );
    }
    return JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString("utf8"));
  }
}
