// The plugin for OpenCode: cachebro's MCP server, its commands, and who did what.
// Each prompt and each tool that changes files is told to "cachebro hook" in Claude
// Code's words, so that "cachebro undo --prompt last" knows what a prompt did. Reads are
// not reported: nothing shows what OpenCode really gave the model.
import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";

const changing = { bash: "Bash", edit: "Edit", write: "Write" };
const patience = 5000; // ms

// program is cachebro of PATH, else the one that npm has put beside this file.
function program() {
  for (const dir of (process.env.PATH || "").split(delimiter)) {
    const file = join(dir || ".", "cachebro");
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {}
  }
  try {
    return createRequire(import.meta.url).resolve(`cachebro-${process.platform}-${process.arch}/bin/cachebro`);
  } catch {
    return undefined;
  }
}

// tell reports an event. It never fails, and never holds OpenCode for longer than that.
function tell(exe, cwd, event) {
  return new Promise((done) => {
    const child = spawn(exe, ["hook", event.hook_event_name, "--client=opencode", "--plugin"], { cwd, stdio: ["pipe", "ignore", "ignore"] });
    const late = setTimeout(() => {
      child.kill();
      done();
    }, patience);
    child.on("close", () => {
      clearTimeout(late);
      done();
    });
    child.on("error", () => {
      clearTimeout(late);
      done();
    });
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify({ ...event, cwd }));
  });
}

// used is a tool call: its files by the name that Claude Code gives them.
function used(name, input, args) {
  return {
    hook_event_name: name,
    session_id: input.sessionID,
    tool_name: changing[input.tool],
    tool_use_id: input.callID,
    tool_input: { ...args, file_path: args?.filePath },
  };
}

const commands = {
  "cachebro-undo": {
    description: "Take back what the last prompt did to the files",
    template:
      "What would be taken back:\n\n!`cachebro undo --prompt last --dry-run $ARGUMENTS`\n\n" +
      'Tell the user in one or two sentences what that would change. Unless it says "nothing to do", carry it out with ' +
      "`cachebro undo --prompt last --yes $ARGUMENTS` and report what was done, and every conflict or loss that it names. Do not use --force.",
  },
  "cachebro-log": {
    description: "What changed in this project, when, and who did it",
    template: "!`cachebro log -n 40 $ARGUMENTS`\n\nSum up for the user what happened to the files, in the order of time: which prompt, command or process changed what.",
  },
  "cachebro-ui": {
    description: "Show the history of this project in a browser",
    template: "Run `cachebro ui` in the background and give the user the address that it prints.",
  },
};

export const Cachebro = async ({ client, directory }) => {
  const exe = program();
  if (!exe) {
    await client?.app?.log({
      body: { service: "cachebro", level: "error", message: "cachebro: the plugin is here, the program is not. To install it: npm install -g cachebro" },
    });
    return {};
  }
  const started = new Set();
  const start = async (session) => {
    if (!session || started.has(session)) return;
    started.add(session);
    await tell(exe, directory, { hook_event_name: "SessionStart", session_id: session, source: "startup" });
  };
  return {
    config: async (config) => {
      config.mcp ??= {};
      config.mcp.cachebro ??= { type: "local", command: [exe, "serve"], enabled: true }; // init's stays
      config.command = { ...commands, ...config.command };
    },
    "chat.message": async (input, output) => {
      await start(input.sessionID);
      const text = (output.parts ?? []).filter((p) => p.type === "text" && !p.synthetic).map((p) => p.text);
      await tell(exe, directory, {
        hook_event_name: "UserPromptSubmit",
        session_id: input.sessionID,
        prompt_id: output.message?.id ?? input.messageID,
        prompt: text.join("\n"),
      });
    },
    "tool.execute.before": async (input, output) => {
      if (changing[input.tool]) await tell(exe, directory, used("PreToolUse", input, output.args));
    },
    "tool.execute.after": async (input) => {
      if (changing[input.tool]) await tell(exe, directory, used("PostToolUse", input, input.args));
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await tell(exe, directory, { hook_event_name: "Stop", session_id: event.properties?.sessionID });
    },
  };
};
