import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page as BrowserPage } from "playwright-core";
import { type ServedDashboard, serveDashboard } from "../src/dashboard/server.ts";
import { evaluate } from "../src/index.ts";
import { startBrowser } from "../test/dashboard/browser.ts";
import { longTrial, longTrialEvents } from "./dashboard-documents.ts";
import type { Row } from "./measure.ts";
import { runTrials } from "./trial-overhead.ts";

const trials = 100_000;
const tasks = 10_000;

interface Page {
  readonly name: string;
  /** Behind the `#`. */
  readonly path: string;
  /** What is there when the page can be used. */
  readonly opened: string;
  readonly use: (page: BrowserPage) => Promise<void>;
}

/** How long pages of a large run and of a long trial take to open, and how long they stall while they are used. */
export async function dashboardPages(): Promise<readonly Row[]> {
  const cwd = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const runs = join(cwd, ".mcpvals", "runs");
  try {
    const { id } = (await runTrials(trials, cwd, tasks)).result;
    const long = await evaluate(longTrial(), { output: runs });
    await using dashboard = await serveDashboard({ runs, cwd, port: 0 });
    return await measurePages(dashboard, pagesOf(id, long.id));
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

function pagesOf(run: string, long: string): readonly Page[] {
  const large = `dashboard, ${trials} trials`;
  const trial = `dashboard, trial of ${longTrialEvents} events`;
  const [row, item] = ["tbody tr a", "main section li button"];
  return [
    { name: `${large}, tasks`, path: `/runs/${run}`, opened: row, use: scroll },
    { name: `${large}, trials`, path: `/runs/${run}/trials`, opened: row, use: scroll },
    { name: `${trial}, trajectory`, path: `/runs/${long}/trials/t1`, opened: item, use: scroll },
    { name: `${trial}, waterfall`, path: `/runs/${long}/trials/t1?show=all`, opened: item, use: zoom },
    { name: `${trial}, events`, path: `/runs/${long}/trials/t1?view=events`, opened: item, use: scroll },
  ];
}

async function measurePages(dashboard: ServedDashboard, pages: readonly Page[]): Promise<readonly Row[]> {
  const browser = await startBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(dashboard.address());
    await page.getByRole("table", { name: "Runs" }).waitFor();
    const rows: Row[] = [];
    for (const { name, path, opened, use } of pages) {
      await page.goto("about:blank");
      const started = performance.now();
      await page.goto(`http://127.0.0.1:${dashboard.port}/#${path}`);
      await page.locator(opened).first().waitFor();
      const elapsed = performance.now() - started;
      await page.evaluate(watchFrames);
      await use(page);
      const stall = await page.evaluate<number>("window.longestFrame");
      rows.push({
        name,
        measured: `open ${Math.round(elapsed)} ms, longest stall ${Math.round(stall)} ms`,
        floor: "-",
        target: "open within 2 s, no stall over 100 ms",
        holds: elapsed < 2000 && stall <= 100,
      });
    }
    return rows;
  } finally {
    await browser.close();
  }
}

/** Notes the longest time between two frames. */
const watchFrames = `
  window.longestFrame = 0;
  let before = performance.now();
  const next = (now) => {
    window.longestFrame = Math.max(window.longestFrame, now - before);
    before = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame((now) => { before = now; next(now); });`;

/** Scrolls the long list of a page to its end in steps, one a frame, then slowly. */
async function scroll(page: BrowserPage): Promise<void> {
  await page.evaluate(`new Promise((done) => {
    const list = [...document.querySelectorAll("main :is(div, section)")].find((each) => each.scrollHeight > each.clientHeight + 1000);
    const step = list.scrollHeight / 120;
    let frames = 0;
    const next = () => {
      list.scrollTop += frames < 60 ? step * 1.5 : 50;
      frames += 1;
      if (frames < 180) requestAnimationFrame(next); else done();
    };
    requestAnimationFrame(next);
  })`);
}

/** Chooses the middle third of the waterfall with the mouse, points at what is in it, and shows all again. */
async function zoom(page: BrowserPage): Promise<void> {
  const box = await page.getByTestId("waterfall").locator("canvas").boundingBox();
  if (box === null) throw new Error("the waterfall is not in view");
  const at = (share: number): [number, number] => [box.x + box.width * share, box.y + box.height * 0.7];
  for (let zooms = 0; zooms < 3; zooms += 1) {
    await page.mouse.move(...at(0.33));
    await page.mouse.down();
    await page.mouse.move(...at(0.66), { steps: 30 });
    await page.mouse.up();
    await page.mouse.move(...at(0.1), { steps: 30 });
    await page.getByRole("button", { name: "Show all" }).click();
  }
}
