import { expect, it } from "vitest";
import { AccessLog } from "./access-log.ts";

/** What a record of `strace -f -yy` says, which comes in two pieces. */
function read(...lines: readonly string[]): readonly string[] {
  const log = new AccessLog();
  const text = lines.map((line) => `${line}\n`).join("");
  const middle = Math.floor(text.length / 2);
  return [...log.push(text.slice(0, middle)), ...log.push(text.slice(middle))].map(
    ({ access, target, failed, isFolder }) =>
      `${access} ${target}${isFolder === true ? "/" : ""}${failed === undefined ? "" : ` ${failed}`}`,
  );
}

it("tells files, programs and connections apart", () => {
  expect(
    read(
      `5 execve("/usr/bin/node", ["node"], 0x1 /* 3 vars */) = 0`,
      `5 openat(AT_FDCWD</folder>, "a.txt", O_RDONLY|O_CLOEXEC) = 21</folder/a.txt>`,
      `5 openat(AT_FDCWD</folder>, "b.txt", O_WRONLY|O_CREAT, 0666) = -1 EROFS (Read-only file system)`,
      `5 openat(AT_FDCWD</folder>, "db", O_RDWR|O_CREAT, 0644) = 22</folder/db>`,
      `5 openat(AT_FDCWD</folder>, "folder", O_RDONLY|O_DIRECTORY) = 23</folder/folder>`,
      `5 openat(AT_FDCWD</folder>, "part", O_PATH|O_NOFOLLOW) = 24</folder/part>`,
      `6 execve("/bin/sh", ["sh", "-c", "x"], 0x1 /* 3 vars */) = 0`,
      `5 unlink("/folder/c.txt") = 0`,
      `5 rename("/folder/d.txt", "/folder/e.txt") = 0`,
      `5 connect(20<socket:[7]>, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("203.0.113.7")}, 16) = -1 ENETUNREACH (Network is unreachable)`,
      `5 connect(20<socket:[7]>, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0`,
      `5 sendto(20<socket:[7]>, "stolen", 6, 0, {sa_family=AF_INET, sin_port=htons(9999), sin_addr=inet_addr("203.0.113.8")}, 16) = 6`,
      `5 connect(20<socket:[7]>, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("203.0.113.9")}, 16) = 0`,
      `5 connect(20<socket:[7]>, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("127.0.0.1")}, 16) = 0`,
      `5 chmod("/folder/f.txt", 0777) = 0`,
      `5 connect(20<socket:[7]>, {sa_family=AF_UNIX, sun_path="/run/nscd/socket"}, 110) = -1 ENOENT (No such file or directory)`,
    ),
  ).toEqual([
    "read /folder/a.txt",
    "write /folder/b.txt EROFS",
    "read /folder/db",
    "read /folder/folder/",
    "run /bin/sh",
    "delete /folder/c.txt",
    "delete /folder/d.txt",
    "write /folder/e.txt",
    "connect 203.0.113.7:443 ENETUNREACH",
    "connect [::1]:80",
    "connect 203.0.113.8:9999",
    "connect 203.0.113.9:53",
    "write /folder/f.txt",
  ]);
});

it("joins a call that another process interrupted, and reads letters in octal", () => {
  expect(
    read(
      String.raw`5 openat(AT_FDCWD</folder>, "k\303\244se.txt", O_RDONLY <unfinished ...>`,
      `6 unlink("/folder/c.txt") = 0`,
      String.raw`5 <... openat resumed>) = 3</folder/k\303\244se.txt>`,
    ),
  ).toEqual(["delete /folder/c.txt", "read /folder/käse.txt"]);
});

it("counts a socket of UDP that is connected only where something is sent", () => {
  const ipv6 = `inet_pton(AF_INET6, "::1", &sin6_addr)`;
  expect(
    read(
      `5 connect(20<UDP:[7]>, {sa_family=AF_INET, sin_port=htons(8642), sin_addr=inet_addr("127.0.0.1")}, 16) = 0`,
      `5 connect(21<UDPv6:[8]>, {sa_family=AF_INET6, sin6_port=htons(8642), sin6_flowinfo=htonl(0), ${ipv6}, sin6_scope_id=0}, 28) = 0`,
      `5 sendto(20<UDP:[127.0.0.1:44001->127.0.0.1:9999]>, "hi", 2, 0, NULL, 0) = 2`,
      `5 sendto(21<UDPv6:[[::1]:50980->[::1]:9998]>, "hi", 2, 0, NULL, 0) = 2`,
      `5 sendto(20<UDP:[127.0.0.1:44001->127.0.0.1:53]>, "hi", 2, 0, NULL, 0) = 2`,
      `5 sendto(22<TCP:[127.0.0.1:44002->127.0.0.1:80]>, "hi", 2, 0, NULL, 0) = 2`,
      `5 connect(22<TCP:[9]>, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0`,
    ),
  ).toEqual(["connect 127.0.0.1:9999", "connect [::1]:9998", "connect 127.0.0.1:80"]);
});

it("leaves out what the system seeks in one folder only and does not find", () => {
  const open = (path: string, resolve: string, result: string): string =>
    `5 openat2(3</folder>, "${path}", {flags=O_RDONLY|O_CLOEXEC, resolve=${resolve}}, 24) = ${result}`;
  expect(
    read(
      open("../id_rsa", "RESOLVE_BENEATH", "-1 EXDEV (Invalid cross-device link)"),
      open("/id_rsa", "RESOLVE_NO_SYMLINKS|RESOLVE_IN_ROOT", "-1 ENOENT (No such file or directory)"),
      open("/id_rsa", "RESOLVE_IN_ROOT", "4</folder/id_rsa>"),
      open("../id_rsa", "RESOLVE_NO_SYMLINKS", "-1 ENOENT (No such file or directory)"),
    ),
  ).toEqual(["read /folder/id_rsa", "read /folder/../id_rsa ENOENT"]);
});

it("reads the name in a question for an address", () => {
  const question = String.raw`\22\64\1\0\0\1\0\0\0\0\0\0\7example\4test\0\0\1\0\1`;
  expect(read(`5 sendto(20<socket:[7]>, "${question}", 30, MSG_NOSIGNAL, NULL, 0) = 30`)).toEqual([
    "resolve example.test",
  ]);
});
