#!/usr/bin/env node
// Starts the binary in the package for this platform, which npm has installed next to this package
// (optionalDependencies). The exit status and signals are passed on.
"use strict";
const { spawnSync } = require("child_process");

const name = `cachebro-${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/bin/cachebro`);
} catch {
  console.error(`cachebro: the package ${name} is not installed`);
  console.error(
    ["linux", "darwin"].includes(process.platform) && ["x64", "arm64"].includes(process.arch)
      ? "hint: npm leaves it out with --omit=optional or --no-optional; install again without it"
      : `hint: there is none for ${process.platform} on ${process.arch}`,
  );
  process.exit(1);
}
const { status, signal, error } = spawnSync(binary, process.argv.slice(2), { stdio: "inherit" });
if (error) {
  console.error(`cachebro: ${error.message}`);
  process.exit(1);
}
if (signal) process.kill(process.pid, signal);
process.exit(status);
