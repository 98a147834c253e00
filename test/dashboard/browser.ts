import { existsSync } from "node:fs";
import axe from "axe-core";
import { type Browser, chromium, type ConsoleMessage, type Page, type Request } from "playwright-core";

/** Undefined where there is none. */
export const chromiumPath: string | undefined = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => existsSync(path));
export const hasBrowser: boolean = chromiumPath !== undefined;
if (!hasBrowser) console.warn("not tried, since there is no Chromium here: the pages of the dashboard");

export async function startBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: chromiumPath ?? "", args: ["--no-sandbox"] });
}

export interface Look {
  readonly theme: "light" | "dark";
  /** In pixels. */
  readonly width: number;
  /** Whether the test decides what time it is, from when the page has its data. */
  readonly clock?: boolean;
}

/** A page of a dashboard, with all that went wrong in it: errors, messages of the console, requests to elsewhere. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  readonly problems: readonly string[];
  /** Goes to a page of the app, and waits until it has its data. */
  readonly go: (path: string) => Promise<void>;
}

/** A page that no test uses any more: to open another takes four times as long as to go elsewhere with it. */
const idle = new WeakMap<Browser, Page>();

async function idlePage(browser: Browser): Promise<Page> {
  const page = idle.get(browser);
  idle.delete(browser);
  return page ?? (await (await browser.newContext()).newPage());
}

/** Takes from a page what a test may have left there. */
async function putBack(browser: Browser, page: Page): Promise<void> {
  await page.evaluate("localStorage.clear(); sessionStorage.clear()");
  await page.context().clearCookies();
  await page.goto("about:blank");
  idle.set(browser, page);
}

/** Opens a dashboard at an address with its token, or the file of a report. */
export async function openPage(
  browser: Browser,
  address: string,
  { theme, width, clock = false }: Look,
): Promise<OpenPage> {
  const page = await idlePage(browser);
  await page.emulateMedia({ colorScheme: theme });
  await page.setViewportSize({ width, height: 800 });
  page.setDefaultTimeout(60_000);
  const problems: string[] = [];
  const [base = ""] = address.split(/[?#]/);
  const onError = (error: Error): unknown => problems.push(error.message);
  const onConsole = (message: ConsoleMessage): void => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  };
  const onRequest = (request: Request): void => {
    if (!request.url().startsWith(base) && !request.url().startsWith("data:")) problems.push(request.url());
  };
  page.on("pageerror", onError).on("console", onConsole).on("request", onRequest);
  const settled = async (): Promise<void> => {
    await page.locator("main :is(h1, [role=alert], table, p)").first().waitFor();
    await page.getByText(/^Loading /).waitFor({ state: "detached" });
  };
  await page.goto(address);
  await settled();
  if (clock) await page.clock.install();
  return {
    page,
    problems,
    async go(path: string) {
      await page.goto(`${base}#${path}`);
      await settled();
    },
    async [Symbol.asyncDispose]() {
      // A clock stays in its page.
      if (clock) return page.context().close();
      page.off("pageerror", onError).off("console", onConsole).off("request", onRequest);
      await putBack(browser, page);
    },
  };
}

/** Light and dark, a wide screen and a phone. */
const looks: readonly Look[] = [1280, 375].flatMap((width) => [
  { theme: "light", width },
  { theme: "dark", width },
]);

/** Rules that can find something else in another theme. */
const colorRules = ["color-contrast", "link-in-text-block"];

/** What is wrong with what is shown, in every look: what axe finds, and what is wider than the screen. */
export async function faultsOf(page: Page): Promise<readonly string[]> {
  const faults: string[] = [];
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe.source);
  for (const { theme, width } of looks) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 800 });
    const rules = theme === "dark" ? { runOnly: colorRules } : {};
    const found = await page.evaluate(async (options) => {
      const { run } = (globalThis as unknown as { readonly axe: typeof axe }).axe;
      const { violations } = await run({ ...options, resultTypes: ["violations"] });
      return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html ?? ""}`);
    }, rules);
    const excess = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    if (excess > 0) found.push(`${excess} pixels too wide`);
    const { hash } = new URL(page.url());
    faults.push(...found.map((fault) => `${hash} ${theme} ${width}: ${fault}`));
  }
  return faults;
}

/** What is wrong with pages of the app. */
export async function faultsOfPages(
  { page, go, problems }: OpenPage,
  paths: readonly string[],
): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const path of paths) {
    await go(path);
    faults.push(...(await faultsOf(page)));
  }
  return [...faults, ...problems];
}
