import { resolve } from "node:path";
import { inTurn, processTime, type Row } from "./measure.ts";

const main = resolve(import.meta.dirname, "../dist/main.js");

/** `mcpvals --help` against an empty Node process. */
export async function helpTime(): Promise<readonly Row[]> {
  const { ours, floor, ratio } = await inTurn(
    25,
    () => processTime(process.execPath, [main, "--help"]),
    () => processTime(process.execPath, ["-e", "0"]),
  );
  return [
    {
      name: "mcpvals --help",
      measured: `${ours.toFixed(1)} ms (${ratio.toFixed(2)}×)`,
      floor: `node -e 0 ${floor.toFixed(1)} ms`,
      target: "within 2×",
      holds: ratio <= 2,
    },
  ];
}
