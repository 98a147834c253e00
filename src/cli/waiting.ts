import type { WriteStream } from "node:tty";
import { visibleText } from "../base/visible-text.ts";
import { cutToWidth } from "../base/columns.ts";
import { beforeOutput, columnsOf, isTerminalAt, repeat, takeNotices, writeLine } from "./terminal.ts";
import { formatElapsed } from "../base/duration.ts";

const waitingMs = 200;

/**
 * Shows a line on a terminal, with the time, until it is disposed of: something goes on that writes nothing. Messages are written
 * above it.
 */
export function showWaiting(text: string, stream: WriteStream = process.stderr): Disposable {
  if (!isTerminalAt(stream)) return { [Symbol.dispose]: () => undefined };
  const erasure = "\r\u001B[2K";
  const started = Date.now();
  const draw = (): void => {
    const tail = `  ${formatElapsed(Date.now() - started)}`;
    const line = cutToWidth(visibleText(text), Math.max(0, columnsOf(stream) - tail.length - 3));
    stream.write(`${erasure}  ${line}${tail}`);
  };
  const stopNotices = takeNotices((notice) => {
    stream.write(erasure);
    writeLine(stream, notice);
    draw();
  });
  const stopErasing = beforeOutput(() => void stream.write(erasure));
  draw();
  const stop = repeat(waitingMs, draw);
  let isOver = false;
  return {
    [Symbol.dispose]() {
      if (isOver) return;
      isOver = true;
      stop();
      stopNotices();
      stopErasing();
      stream.write(erasure);
    },
  };
}
