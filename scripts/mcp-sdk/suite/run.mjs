// Runs the conformance suite's server scenarios against `cachebro serve --http`, and the
// Inspector's command line against `cachebro serve` on stdio. expected.json lists the checks that
// are expected to fail. It is an error if another check fails, or if a listed check passes, so that
// the list stays true.
import http from "node:http";
import { randomBytes } from "node:crypto";
import { spawn, execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const [cachebro, dir, npm, results] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const expected = JSON.parse(readFileSync(join(here, "expected.json"), "utf8"));
const token = randomBytes(16).toString("hex");
const run = promisify(execFile);
let bad = 0;

const listening = (server) => new Promise((ok) => server.listen(0, "127.0.0.1", () => ok(server.address().port)));

// freePort returns a port that is free now. It is needed because serve does not accept port 0.
async function freePort() {
  const s = http.createServer();
  const port = await listening(s);
  await new Promise((ok) => s.close(ok));
  return port;
}

// withToken returns a proxy that adds the bearer token and changes nothing else. It is needed
// because the suite cannot send a token.
function withToken(port) {
  return http.createServer((req, res) => {
    const out = http.request({ host: "127.0.0.1", port, path: req.url, method: req.method, headers: { ...req.headers, authorization: `Bearer ${token}` } }, (r) => {
      res.writeHead(r.statusCode, r.headers);
      r.pipe(res);
    });
    out.on("error", () => res.destroy());
    res.on("close", () => out.destroy());
    req.pipe(out);
  });
}

async function answers(port) {
  for (let i = 0; i < 300; i++) {
    const up = await new Promise((ok) => http.get({ host: "127.0.0.1", port, path: "/" }, (r) => { r.resume(); ok(true); }).on("error", () => ok(false)));
    if (up) return;
    await new Promise((r) => setTimeout(r, 100));
  }
  throw new Error("serve --http does not answer");
}

const port = await freePort();
const serve = spawn(cachebro, ["serve", "--tools=all", "--http", `127.0.0.1:${port}`, dir], { env: { ...process.env, CACHEBRO_TOKEN: token }, stdio: ["ignore", "ignore", "inherit"] });
const proxy = withToken(port);
try {
  await answers(port);
  const url = `http://127.0.0.1:${await listening(proxy)}/mcp`;
  for (const era of ["2025-11-25", "2026-07-28"]) {
    const out = join(results, era);
    const suite = join(npm, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
    // The suite's exit status is ignored, because it only repeats the results.
    await run(process.execPath, [suite, "server", "--url", url, "--suite", "all", "--spec-version", era, "-o", out], { maxBuffer: 64 << 20 }).catch(() => {});
    let passed = 0;
    const failed = new Map();
    for (const d of readdirSync(out)) {
      for (const c of JSON.parse(readFileSync(join(out, d, "checks.json"), "utf8"))) {
        if (c.status === "SUCCESS") passed++;
        if (c.status === "FAILURE") failed.set(c.id, c.errorMessage ?? c.description);
      }
    }
    const known = expected[era];
    const surprises = [...failed].filter(([id]) => !(id in known));
    const stale = Object.keys(known).filter((id) => !failed.has(id));
    console.log(`${era}: ${passed} passed, ${failed.size} failed, ${failed.size - surprises.length} of them not applicable`);
    for (const [id, why] of surprises) console.log(`FAIL  ${era} ${id}: ${why}`);
    for (const id of stale) console.log(`FAIL  ${era} ${id} is expected to fail and does not`);
    if (passed === 0) console.log(`FAIL  ${era}: the suite did not run`);
    bad += surprises.length + stale.length + (passed === 0 ? 1 : 0);
  }

  const inspector = join(npm, "node_modules/.bin/mcp-inspector");
  // The Inspector passes only a few variables of the environment to a server.
  const env = Object.entries(process.env).filter(([k]) => k.startsWith("XDG_")).map(([k, v]) => `${k}=${v}`);
  const inspect = async (...args) => {
    const { stdout } = await run(process.execPath, [inspector, "--cli", "env", ...env, cachebro, "serve", "--tools=all", dir, ...args], { maxBuffer: 64 << 20 }).catch((e) => e);
    return JSON.parse(stdout);
  };
  const { tools } = await inspect("--method", "tools/list");
  const late = ["undo", "redo"]; // these tools run last, when there is something to undo
  tools.sort((a, b) => late.indexOf(a.name) - late.indexOf(b.name));
  let called = 0;
  for (const t of tools) {
    const args = Object.entries(expected.calls[t.name] ?? {}).flatMap(([k, v]) => ["--tool-arg", `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`]);
    const r = await inspect("--method", "tools/call", "--tool-name", t.name, ...args);
    const text = r.content?.[0]?.text ?? "";
    if (r.isError || text === "") {
      bad++;
      console.log(`FAIL  inspector ${t.name}: ${text || JSON.stringify(r)}`);
    } else called++;
  }
  console.log(`inspector: ${tools.length} tools listed, ${called} answered`);
} finally {
  proxy.close();
  proxy.closeAllConnections();
  serve.kill();
}
process.exit(bad ? 1 : 0);
