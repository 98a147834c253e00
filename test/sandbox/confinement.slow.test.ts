import { mkdir, readdir, readFile, readlink, realpath, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { installFolders } from "../../src/sandbox/mounts.ts";
import { sandboxOf } from "../../src/sandbox/sandboxes.ts";
import { withoutKeys } from "../../src/sandbox/bubblewrap.ts";
import {
  Bench,
  commandLines,
  freshFolder,
  freshPlace,
  hostile,
  hostileFolder,
  type Place,
  whyNot,
} from "./support.ts";

/** The home folder of the user, whatever HOME says. */
const ownHome = userInfo().homedir;

const sandbox = sandboxOf("process");
const reason = process.platform === "linux" ? await whyNot(sandbox) : "only tried on Linux";
if (process.platform !== "linux") console.warn("SKIPPED: the sandbox of this platform was never tried");

const node = process.execPath;
/** What a filter of system calls says of a call, as the kernel would run it. */
function verdict(filter: Buffer, call: { readonly architecture: number; readonly number: number }): number {
  let value = 0;
  for (let at = 0; ; at += 8) {
    const operand = filter.readUInt32LE(at + 4);
    const code = filter.readUInt16LE(at);
    if (code === 0x06) return operand;
    if (code === 0x20) value = operand === 4 ? call.architecture : call.number;
    else if (code === 0x54) value = (value & operand) >>> 0;
    else at += 8 * filter.readUInt8(at + (value === operand ? 2 : 3));
  }
}

/** What the hostile program can do to a folder that may be written. */
const allWays = ["write", "append", "remove", "mkdir", "link", "mode"];

describe.skipIf(reason !== undefined)(
  `the process sandbox${reason === undefined ? "" : ` (SKIPPED: ${reason})`}`,
  () => {
    let place: Place;
    let bench: Bench;

    beforeEach(async () => {
      place = await freshPlace();
      bench = new Bench(sandbox, place);
    });

    describe("shows what a program needs", () => {
      it("lets it read its task and write its workspace, at the same paths", async () => {
        await writeFile(join(place.task, "input.txt"), "from the task");
        const script = `require("fs").writeFileSync("out.txt", require("fs").readFileSync(${JSON.stringify(join(place.task, "input.txt"))}))`;
        expect(await bench.run([node, "-e", script])).toEqual({
          exitCode: 0,
          stdout: "",
          stderr: "",
          brokenLimit: undefined,
        });
        expect(await readFile(join(place.workspace, "out.txt"), "utf8")).toBe("from the task");
      });

      it("starts a script by its first line, also under the home folder", async () => {
        const folder = await freshFolder(ownHome);
        const program = join(folder, "program");
        await writeFile(program, "#!/usr/bin/env python3\nimport ssl, json, socket; print('a script')\n", {
          mode: 0o755,
        });
        expect(await bench.run([program], { read: [folder] })).toMatchObject({
          stdout: "a script\n",
          stderr: "",
        });
      });

      it("has the workspace in the task's folder, and that in another that may be read", async () => {
        const inner = join(place.task, "run", "workspace");
        await mkdir(inner, { recursive: true });
        const paths = [place.task, join(place.task, "run"), inner];
        const answer = await bench.ask([node, hostile("write.mjs"), ...paths], {
          read: [join(place.task, "..")],
          write: [inner],
          cwd: inner,
        });
        expect(answer).toEqual(allWays.map((name) => `${name} ${inner}`));
      });

      it("follows a link that is given to what it leads to, at both paths", async () => {
        const link = join(place.task, "..", "link");
        await symlink(place.task, link);
        await writeFile(join(place.task, "file"), "there");
        const paths = [join(link, "file"), join(await realpath(link), "file")];
        const other = new Bench(sandbox, { task: link, workspace: place.workspace });
        expect(await other.ask([node, hostile("read.mjs"), ...paths])).toEqual({
          [paths[0]!]: "there",
          [paths[1]!]: "there",
        });
      });

      it("gives an empty home that can be written, the one that the environment names if it does", async () => {
        const script = "pwd > ~/file && ls -A ~ && echo $HOME";
        expect((await bench.run(["sh", "-c", script])).stdout).toBe("file\n/tmp/home\n");
        expect((await bench.run(["sh", "-c", script], { env: { HOME: ownHome } })).stdout).toContain(
          `file\n`,
        );
        expect((await bench.run(["sh", "-c", script], { env: { HOME: place.workspace } })).stdout).toBe(
          `file\n${place.workspace}\n`,
        );
      });

      it("passes on the exit code, stdin and arguments as they are", async () => {
        const child = await bench.start([
          "sh",
          "-c",
          'read line; echo "$line $1" >&2; exit 7',
          "sh",
          "a  b'\"$x",
        ]);
        const said: string[] = [];
        child.stderr.on("data", (chunk: Buffer) => said.push(chunk.toString()));
        child.stdin.write("hello\n");
        expect(await child.exited).toEqual({ exitCode: 7, signal: null });
        await vi.waitFor(() => expect(said.join("")).toBe("hello a  b'\"$x\n"));
      });
    });

    describe("says why a program cannot start", () => {
      it.each([
        ["no-such-program", {}, "command not found: no-such-program"],
        ["sh", { read: ["/no/such/folder"] }, "the sandbox lists /no/such/folder, which does not exist"],
        ["sh", { cwd: ownHome }, `cwd is not visible in the sandbox: ${ownHome}`],
        ["sh", { cwd: "/tmp/none/such" }, "cwd is not visible in the sandbox: /tmp/none/such"],
      ])("%s with %j", async (program, given, message) => {
        await expect(bench.start([program], given)).rejects.toMatchObject({
          code: "server/spawn-failed",
          message,
        });
      });
    });

    describe("hides files", () => {
      it("has no home folder, whoever's, by whatever path", async () => {
        const home = await freshFolder(ownHome);
        await writeFile(join(home, "secret"), "s3cret");
        await symlink(home, join(place.workspace, "link"));
        const ways = [home, join(home, "secret"), `/proc/1/root${home}/secret`];
        const system = "/home /root /var /etc/shadow /run /opt /sys".split(" ");
        const paths = [ownHome, ...ways, join(place.workspace, "link", "secret"), ...system];
        expect(await bench.ask([node, hostile("read.mjs"), ...paths])).toEqual(
          Object.fromEntries(paths.map((path) => [path, { code: "ENOENT" }])),
        );
        const script = "import sys; print(sys.executable)";
        const python = await realpath((await bench.run(["python3", "-c", script])).stdout.trim());
        const seen = await bench.ask(["python3", hostile("read.py"), home, ownHome]);
        const { [home]: inside, [ownHome]: names } = seen as Record<string, string[][]>;
        expect(inside).toEqual([]);
        // An interpreter that is installed under the home folder is shown there, and nothing beside it.
        const others = names!.flat().filter((name) => !python.startsWith(`${join(ownHome, name)}/`));
        expect(others).toEqual([]);
      });

      it("has nothing of other folders in the temporary folder", async () => {
        const other = await freshFolder();
        expect(await bench.ask([node, hostile("read.mjs"), other, "/dev/shm"])).toEqual({
          [other]: { code: "ENOENT" },
          "/dev/shm": [],
        });
      });

      it("does not follow a link that an earlier program put in the place of something to be read", async () => {
        const home = await freshFolder(ownHome);
        const data = join(place.workspace, "data");
        await writeFile(join(home, "secret"), "s3cret");
        await symlink(home, data);
        const path = join(data, "secret");
        expect(await bench.ask([node, hostile("read.mjs"), path, home], { read: [data] })).toEqual({
          [path]: { code: "ENOENT" },
          [home]: { code: "ENOENT" },
        });
      });
    });

    it("lets nothing be written but the workspace", async () => {
      const own = await freshFolder();
      for (const folder of [place.task, own]) await writeFile(join(folder, "there"), "before");
      const system = ["/", "/usr", "/etc", "/etc/ssl/certs", "/dev", "/proc", "/proc/1", "/bin/", "/tmp/.."];
      const paths = [place.task, own, ...system];
      expect(
        await bench.ask([node, hostile("write.mjs"), ...paths, place.workspace], { read: [own] }),
      ).toEqual(allWays.map((name) => `${name} ${place.workspace}`));
      expect([await readdir(place.task), await readdir(own)]).toEqual([["there"], ["there"]]);
      expect(await readFile(join(own, "there"), "utf8")).toBe("before");
    });

    it("shows no variable that was not given, and none on a command line", async () => {
      const env = { NAMED: "named-value", "odd.name": "line one\nline two", LD_PRELOAD: "" };
      const own = { PATH: process.env["PATH"], ...env, HOME: "/tmp/home", PWD: place.workspace };
      const { own: seen, all } = (await bench.ask(["python3", hostile("environ.py")], { env })) as {
        own: Record<string, string>;
        all: string[];
      };
      const { LC_CTYPE: _ofPython, ...rest } = seen;
      expect(rest).toEqual(own);
      // What confines it shows nothing of itself.
      expect(all).toEqual(
        Object.entries(own)
          .map(([name, value]) => `${name}=${value}`)
          .sort(),
      );
      expect(await bench.ask([node, hostile("environ.mjs")], { env })).toEqual(own);
      const child = await bench.start(["sh", "-c", "echo ready; read line"], { env });
      await new Promise((resolve) => child.stdout.once("data", resolve));
      expect(commandLines("bwrap").length).toBeGreaterThan(0);
      expect(commandLines("named-value")).toEqual([]);
    });

    it("loads no library that the environment names into what confines", async () => {
      const env = { LD_PRELOAD: join(place.workspace, "evil.so") };
      await writeFile(join(place.workspace, "evil.so"), "not a library");
      const { stderr } = await bench.run(["/bin/sh", "-c", ":"], { env });
      expect(stderr.match(/evil\.so/g)).toHaveLength(1);
    });

    describe("network", () => {
      const listen = async (...at: readonly [string] | readonly [number, string]): Promise<number> => {
        const server = createServer((socket) => socket.end("hello"));
        onTestFinished(() => new Promise((resolve) => void server.close(() => resolve())));
        await new Promise<void>((resolve) => {
          if (at.length === 1) server.listen(at[0], resolve);
          else server.listen(...at, resolve);
        });
        const address = server.address();
        return typeof address === "object" && address !== null ? address.port : 0;
      };

      it("is not there", async () => {
        const port = await listen(0, "127.0.0.1");
        const abstract = `mcpvals-${process.pid}-${performance.now()}`;
        await listen(`\0${abstract}`);
        const answer = await bench.ask(["python3", hostile("network.py"), String(port), abstract]);
        expect(answer).toEqual({ worked: {}, interfaces: ["lo"] });
        expect(await bench.ask([node, hostile("network.mjs"), String(port)])).toEqual({
          loopback: { code: "ECONNREFUSED" },
          resolved: { code: expect.stringMatching(/EAI_AGAIN|ENOTFOUND/) },
        });
      });

      it("is that of the machine when the spec says so", async () => {
        const port = String(await listen(0, "127.0.0.1"));
        const given = { spec: { network: "host" as const } };
        const answer = await bench.ask([node, hostile("network.mjs"), port], given);
        expect(answer).toMatchObject({ loopback: "hello" });
      });
    });

    it("gives no powers over the machine, also as root", async () => {
      const env = { VICTIM: String(process.pid) };
      expect(await bench.ask(["python3", hostile("powers.py")], { env })).toEqual({
        worked: [],
        capabilities: "0000000000000000",
        noNewPrivileges: "1",
      });
    });

    it("has every kind of namespace to itself", async () => {
      const links = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"].map(
        (kind) => `/proc/self/ns/${kind}`,
      );
      const outside = await Promise.all(links.map((link) => readlink(link)));
      const script = `console.log(JSON.stringify(${JSON.stringify(links)}.map((link) => require("fs").readlinkSync(link))))`;
      const inside = (await bench.ask([node, "-e", script])) as string[];
      expect(inside).toHaveLength(links.length);
      expect(inside.filter((one) => outside.includes(one))).toEqual([]);
    });

    it.each([
      [0xc000003e, [248, 249, 250], 251],
      [0xc000003e, [248, 249, 250].map((number) => number + 0x40000000), 0x40000000],
      [0x40000003, [286, 287, 288], 289],
      [0xc00000b7, [217, 218, 219], 220],
      [0x40000028, [309, 310, 311], 312],
    ])("has no keyrings by any number of their calls: %i %j", (architecture, numbers, next) => {
      const filter = withoutKeys();
      const other = [numbers[0]! - 1, next];
      expect(numbers.map((number) => verdict(filter, { architecture, number }))).toEqual(
        Array(3).fill(0x50026),
      );
      expect(other.map((number) => verdict(filter, { architecture, number }))).toEqual(
        Array(2).fill(0x7fff0000),
      );
    });

    it("shows the folder that a program is installed in, but never a home folder or what is above one", async () => {
      const above = await freshFolder();
      const home = join(above, "me");
      const places = [above, home, join(home, ".local"), join(home, "tool")];
      for (const place of places) {
        await mkdir(join(place, "bin"), { recursive: true });
        await mkdir(join(place, "lib"));
        await writeFile(join(place, "bin", "program"), "");
      }
      const shown = await Promise.all(
        places.map((place) => installFolders(join(place, "bin", "program"), home)),
      );
      const alone = places.slice(0, 3).map((place) => [join(place, "bin", "program")]);
      expect(shown).toEqual([...alone, [join(home, "tool")]]);
    });

    it("keeps what is beside the hostile programs unchanged", async () => {
      expect((await readdir(hostileFolder)).filter((name) => !/\.(mjs|py)$/.test(name))).toEqual([]);
    });
  },
);
