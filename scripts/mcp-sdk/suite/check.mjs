// Runs the client of the official TypeScript SDK against `cachebro serve`. The answers to an agent
// must be exact, and an agent's mistake must never end the server.
//
//   node check.mjs DIR -- cachebro serve --tools=all --reader=connection    (run.sh does)
//
// DIR is the project as programs see it, which is the mountpoint if it is mounted. The check makes
// its own files in DIR/mcp-sdk-check and removes them at the end.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync, mkdtempSync, statSync, chmodSync, renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import assert from "node:assert/strict";

const [dir, sep, command, ...args] = process.argv.slice(2);
if (!dir || sep !== "--" || !command) {
  console.error("usage: node check.mjs DIR -- bin/cachebro serve --tools=all --reader=connection");
  process.exit(2);
}
const sub = "mcp-sdk-check";
const here = join(dir, sub);
const scratch = mkdtempSync(join(tmpdir(), "mcp-sdk-"));
const clients = [];
let passed = 0;
let failed = 0;

async function connect(extra = []) {
  const client = new Client({ name: "sdk-check", version: "1" });
  await client.connect(new StdioClientTransport({ command, args: [...args, ...extra], cwd: dir, stderr: "inherit", env: process.env }));
  clients.push(client);
  return client;
}

async function call(client, name, a) {
  const r = await client.callTool({ name, arguments: a });
  return { text: r.content[0].text, error: r.isError === true, content: r.content };
}

async function good(client, name, a) {
  const r = await call(client, name, a);
  assert.ok(!r.error, `${name} ${JSON.stringify(a)}: ${r.text}`);
  return r.text;
}

async function bad(client, name, a, want) {
  const r = await call(client, name, a);
  assert.ok(r.error, `${name} ${JSON.stringify(a)} was accepted: ${r.text}`);
  assert.match(r.text, want);
}

async function check(what, f) {
  try {
    await f();
    passed++;
    console.log(`ok    ${what}`);
  } catch (e) {
    failed++;
    console.log(`FAIL  ${what}\n      ${String(e.message ?? e).split("\n").join("\n      ")}`);
  }
}

// patched applies a unified diff without a header to text.
function patched(text, hunks) {
  const file = join(scratch, "base");
  writeFileSync(file, text);
  execFileSync("patch", ["-s", "--no-backup-if-mismatch", file], { input: hunks.endsWith("\n") ? hunks : hunks + "\n" });
  return readFileSync(file, "utf8");
}

// The texts must have at most 8 KiB. Without hooks, the server does not know whether the client
// received a longer text in full.
function numbered(n, word) {
  return Array.from({ length: n }, (_, i) => `${word} ${i + 1}: some text of it\n`).join("");
}

rmSync(here, { recursive: true, force: true });
mkdirSync(here);
const original = numbered(245, "line");
writeFileSync(join(here, "a.txt"), original);
writeFileSync(join(here, "part.txt"), numbered(200, "part"));
writeFileSync(join(here, "edit.sh"), "#!/bin/sh\necho one\n" + numbered(100, "# comment"));
chmodSync(join(here, "edit.sh"), 0o755);
writeFileSync(join(here, "bin.dat"), Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 0, 1, 2]));
writeFileSync(join(scratch, "secret"), "secret\n");
symlinkSync(join(scratch, "secret"), join(here, "out"));
const path = `${sub}/a.txt`;

try {
  const c = await connect();
  await check("tools are listed, with titles and annotations", async () => {
    const { tools } = await c.listTools();
    assert.ok(tools.length >= 6);
    for (const t of tools) {
      assert.ok(t.title && t.annotations, t.name);
      assert.ok(!("file_path" in (t.inputSchema.properties ?? {})), t.name);
    }
  });
  await check("the first read is full and byte-identical", async () => {
    assert.equal(await good(c, "read_file", { path }), original);
  });
  await check("the second read is a stub", async () => {
    assert.match(await good(c, "read_file", { path }), /^\[unchanged · 245 lines · ~[\d.]+k? saved\]$/);
  });
  await check("the third read, asked again, is full", async () => {
    assert.equal(await good(c, "read_file", { path }), original);
  });
  await check("after sed -i: a diff that patch applies", async () => {
    execFileSync("sed", ["-i", "-e", "50s/text/TEXT/", "-e", "120d", "-e", "200a an added line", join(here, "a.txt")]);
    const now = readFileSync(join(here, "a.txt"), "utf8");
    assert.notEqual(now, original);
    const text = await good(c, "read_file", { path });
    const [label, ...rest] = text.split("\n");
    assert.match(label, /^\[changed · \+2 -2 since your read · 245 -> 245 lines\]$/);
    assert.equal(patched(original, rest.join("\n")), now);
    assert.ok(text.length < now.length / 4);
    assert.match(await good(c, "read_file", { path, offset: 1, limit: 20 }), /^\[unchanged · lines 1-20 of 245/);
  });
  await check("absolute and mounted spellings are the same file", async () => {
    const t = await good(c, "read_file", { path: join(here, "a.txt"), force: true });
    assert.equal(t, readFileSync(join(here, "a.txt"), "utf8"));
  });
  await check("a partial read never makes a full read unchanged", async () => {
    const text = readFileSync(join(here, "part.txt"), "utf8");
    const p = `${sub}/part.txt`;
    assert.equal(await good(c, "read_file", { path: p, offset: 50, limit: 11 }), text.split("\n").slice(49, 60).join("\n") + "\n");
    assert.match(await good(c, "read_file", { path: p, offset: 52, limit: 5 }), /^\[unchanged · lines 52-56 of 200|^part 52/);
    assert.equal(await good(c, "read_file", { path: p }), text);
    assert.match(await good(c, "read_file", { path: p }), /^\[unchanged · 200 lines/);
  });
  await check("another connection gets the full text", async () => {
    const other = await connect();
    assert.equal(await good(other, "read_file", { path }), readFileSync(join(here, "a.txt"), "utf8"));
    assert.match(await good(other, "read_file", { path }), /^\[unchanged · 245 lines/);
  });
  await check("force gives the full text", async () => {
    assert.equal(await good(c, "read_file", { path, force: true }), readFileSync(join(here, "a.txt"), "utf8"));
  });
  await check("same size and time, other content: no stub", async () => {
    const f = join(here, "same.txt");
    writeFileSync(f, numbered(60, "aaaa"));
    const st = statSync(f);
    const first = await good(c, "read_file", { path: `${sub}/same.txt` });
    writeFileSync(f, numbered(60, "bbbb"));
    execFileSync("touch", ["-d", st.mtime.toISOString(), f]);
    const text = await good(c, "read_file", { path: `${sub}/same.txt` });
    assert.ok(!text.startsWith("[unchanged"), text);
    assert.ok(text === readFileSync(f, "utf8") || patched(first, text.split("\n").slice(1).join("\n")) === readFileSync(f, "utf8"));
  });
  await check("an atomic save is seen", async () => {
    const f = join(here, "saved.txt");
    writeFileSync(f, numbered(80, "old"));
    const first = await good(c, "read_file", { path: `${sub}/saved.txt` });
    writeFileSync(f + ".tmp", numbered(80, "old").replace("old 40:", "new 40:"));
    renameSync(f + ".tmp", f);
    const text = await good(c, "read_file", { path: `${sub}/saved.txt` });
    assert.match(text, /^\[changed · \+1 -1 since your read/);
    assert.equal(patched(first, text.split("\n").slice(1).join("\n")), readFileSync(f, "utf8"));
  });
  await check("edit_file is exact and keeps the mode", async () => {
    const p = `${sub}/edit.sh`;
    const before = await good(c, "read_file", { path: p });
    await good(c, "edit_file", { path: p, old_string: "echo one", new_string: "echo two" });
    const now = readFileSync(join(here, "edit.sh"), "utf8");
    assert.equal(now, before.replace("echo one", "echo two"));
    assert.equal(statSync(join(here, "edit.sh")).mode & 0o777, 0o755);
    const text = await good(c, "read_file", { path: p });
    assert.ok(text.startsWith("[unchanged") || text === now || text.startsWith("[changed"), text.slice(0, 80));
    await bad(c, "edit_file", { path: p, old_string: "comment", new_string: "x" }, /occurs 100 times/);
    await bad(c, "edit_file", { path: p, old_string: "no such text", new_string: "x" }, /does not occur/);
  });
  await check("search_history lists the changes, revert_file takes one back", async () => {
    const p = `${sub}/edit.sh`;
    const log = await good(c, "search_history", { path_filter: p });
    assert.match(log, /edit\.sh/);
    await good(c, "revert_file", { path: p });
    assert.match(readFileSync(join(here, "edit.sh"), "utf8"), /echo one/);
    assert.equal(statSync(join(here, "edit.sh")).mode & 0o777, 0o755);
  });
  await check("read_files, get_working_set", async () => {
    const t = await good(c, "read_files", { paths: [`${sub}/edit.sh`, `${sub}/gone`] });
    assert.match(t, new RegExp(`^=== ${sub}/edit.sh ===\n`));
    assert.match(t, new RegExp(`=== ${sub}/gone ===\nerror: no such file`));
    assert.match(await good(c, "get_working_set", {}), /edit\.sh/);
  });
  await check("mistakes are tool errors that say how to mend them", async () => {
    await bad(c, "read_file", { path: "/etc/passwd" }, /not inside the project[^]*hint: /);
    await bad(c, "read_file", { path: "../x" }, /contains \.\.[^]*hint: /);
    await bad(c, "read_file", { path: `${sub}/out` }, /not inside the project/);
    await bad(c, "read_file", { path: sub }, /is a directory[^]*hint: /);
    await bad(c, "read_file", { path: `${sub}/a.tx` }, /no such file[^]*hint: did you mean/);
    await bad(c, "read_file", { path: `${sub}/bin.dat` }, /binary/);
    await bad(c, "read_file", {}, /path is missing/);
    await bad(c, "read_file", { path, offset: 100000 }, /beyond the end/);
    await bad(c, "edit_file", { path: `${sub}/out`, old_string: "secret", new_string: "x" }, /not inside the project/);
    assert.equal(readFileSync(join(scratch, "secret"), "utf8"), "secret\n");
    assert.match(await good(c, "read_file", { path: `${sub}/edit.sh`, force: true }), /echo/);
  });
  const all = await connect();
  await check("profile all: ls, write_file, status, undo preview", async () => {
    const listing = await good(all, "ls", { path: sub, recursive: false });
    assert.match(listing, /^a\.txt$/m);
    await good(all, "write_file", { path: `${sub}/w.txt`, content: "one\n", expected_hash: "absent" });
    assert.equal(readFileSync(join(here, "w.txt"), "utf8"), "one\n");
    await bad(all, "write_file", { path: `${sub}/w.txt`, content: "two\n", expected_hash: "absent" }, /exists/);
    const st = await all.callTool({ name: "cache_status", arguments: {} });
    assert.equal(typeof st.structuredContent.files_tracked, "number");
    assert.match(st.content[0].text, /tokens saved/);
    const m = await all.callTool({ name: "get_delta_metrics", arguments: {} });
    assert.equal(typeof m.structuredContent.saved_tokens, "number");
    await good(all, "summarize_session", {});
    await good(all, "git_lost", {});
    await good(all, "cache_clear", {});
  });
  await check("undo previews, takes back, and redo brings back", async () => {
    const f = join(here, "w.txt");
    await good(all, "edit_file", { path: `${sub}/w.txt`, old_string: "one", new_string: "ONE" });
    assert.match(await good(all, "undo", { dry_run: true }), /^would undo: [^]*nothing was changed/);
    assert.equal(readFileSync(f, "utf8"), "ONE\n");
    assert.match(await good(all, "undo", {}), /^undone: /);
    assert.equal(readFileSync(f, "utf8"), "one\n");
    assert.match(await good(all, "redo", {}), /^redone: /);
    assert.equal(readFileSync(f, "utf8"), "ONE\n");
  });
  await check("resources can be listed and read", async () => {
    const { resources } = await all.listResources();
    assert.ok(resources.some((r) => r.uri === "cachebro://status"));
    for (const uri of ["cachebro://status", "cachebro://working-set", "cachebro://metrics", `cachebro://history/${sub}/w.txt`]) {
      const r = await all.readResource({ uri });
      assert.ok(r.contents[0].text.length > 0, uri);
    }
    const { resourceTemplates } = await all.listResourceTemplates();
    assert.equal(resourceTemplates[0].uriTemplate, "cachebro://history/{+path}");
    const done = await all.complete({ ref: { type: "ref/resource", uri: "cachebro://history/{+path}" }, argument: { name: "path", value: `${sub}/w` } });
    assert.deepEqual(done.completion.values, [`${sub}/w.txt`]);
  });
  await check("a subscribed resource tells of its change", async () => {
    const { ResourceUpdatedNotificationSchema } = await import("@modelcontextprotocol/sdk/types.js");
    const uri = `cachebro://history/${sub}/w.txt`;
    const told = new Promise((ok, no) => {
      all.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => n.params.uri === uri && ok());
      setTimeout(() => no(new Error("not told within 10 s")), 10000).unref();
    });
    await all.subscribeResource({ uri });
    await new Promise((r) => setTimeout(r, 1500));
    await good(all, "write_file", { path: `${sub}/w.txt`, content: "three\n" });
    await told;
  });
  await check("the server is still alive, and a re-read is fast", async () => {
    await good(c, "read_file", { path, force: true });
    const times = [];
    for (let i = 0; i < 200; i++) {
      const t = process.hrtime.bigint();
      await good(c, "read_file", { path });
      times.push(Number(process.hrtime.bigint() - t) / 1e6);
    }
    times.sort((a, b) => a - b);
    console.log(`      re-read over stdio with the SDK's client: p50 ${times[100].toFixed(3)} ms, p99 ${times[197].toFixed(3)} ms`);
  });
} catch (e) {
  failed++;
  console.log(`FAIL  ${e.stack ?? e}`);
} finally {
  for (const c of clients) await c.close().catch(() => {});
  rmSync(here, { recursive: true, force: true });
  rmSync(scratch, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed (${basename(command)} in ${dir})`);
process.exit(failed ? 1 : 0);
