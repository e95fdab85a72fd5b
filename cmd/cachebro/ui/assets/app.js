// This script adds what htmx cannot do: live updates, keyboard control, dialogs. All pages can be
// read without it.
"use strict";
(() => {
  const $ = (s, e = document) => e.querySelector(s);
  const $$ = (s, e = document) => [...e.querySelectorAll(s)];
  const page = document.body.dataset.page;

  // --- live: new actions appear at the top, and opened ones stay open
  const timeline = $("#timeline");
  let newest = 0, source = null, wanted = 0, busy = false;

  const noteNewest = () => {
    for (const e of $$("[data-newest]")) newest = Math.max(newest, Number(e.dataset.newest));
  };
  const lastOf = (e) => $$(".action", e).map((a) => Number(a.dataset.last));
  // renew updates the element of an action, but keeps the parts that are open or have the focus.
  const renew = (old, now) => {
    if (old.dataset.print === now.dataset.print) return;
    if (!$("details[open]", old) && !old.contains(document.activeElement)) {
      old.replaceWith(now);
      htmx.process(now);
      return;
    }
    if (!$("header", old).contains(document.activeElement)) {
      $("header", old).replaceWith($("header", now));
      htmx.process($("header", old));
    }
    const fresh = $$("summary", now);
    for (const s of $$("summary", old)) {
      const by = fresh.find((f) => $(".name", f).textContent === $(".name", s).textContent);
      if (by) s.innerHTML = by.innerHTML;
    }
    old.className = now.className;
    old.dataset.print = now.dataset.print;
    old.toggleAttribute("data-unsure", now.hasAttribute("data-unsure"));
  };
  const merge = (doc, oldest) => {
    for (const g of $$(".prompt", doc).reverse()) {
      const fresh = [];
      for (const a of $$(".action", g)) {
        const old = document.getElementById(a.id);
        if (old) renew(old, a);
        else if (Number(a.dataset.last) > oldest) fresh.push(a);
      }
      if (!fresh.length) continue;
      const first = $(".prompt", timeline);
      if (first && first.dataset.group === g.dataset.group) {
        const at = $(".action", first);
        for (const a of fresh) { first.insertBefore(a, at); htmx.process(a); a.classList.add("new"); }
      } else {
        for (const a of $$(".action", g)) if (!fresh.includes(a)) a.remove();
        for (const a of fresh) a.classList.add("new");
        timeline.prepend(g);
        htmx.process(g);
      }
    }
    $(":scope > .wait", timeline)?.remove();
  };
  // sync fetches the new actions. If whole is set, it also fetches the actions on the page again,
  // because missing counts may be known now, and actions may have been undone.
  const maxPages = 20;
  let again = false;
  const sync = async (whole) => {
    if (!timeline || !timeline.dataset.live) return;
    if (busy) { again = again || whole; return; }
    busy = true;
    try {
      do {
        whole = whole || again;
        again = false;
        const want = wanted, shown = lastOf(timeline), known = newest;
        const oldest = shown.length ? Math.min(...shown) : 0, until = whole ? oldest : known;
        const docs = [];
        for (let url = timeline.dataset.from; url && docs.length < maxPages;) {
          const r = await fetch(url);
          if (!r.ok) return;
          const doc = new DOMParser().parseFromString(await r.text(), "text/html");
          docs.push(doc);
          for (const e of $$("[data-newest]", doc)) newest = Math.max(newest, Number(e.dataset.newest));
          url = Math.min(...lastOf(doc)) > until ? $(".more [hx-get]", doc)?.getAttribute("hx-get") : null;
        }
        for (const doc of docs.reverse()) merge(doc, oldest);
        newest = Math.max(newest, want); // the newest versions may belong to no action
        whole = false;
      } while (wanted > newest || again);
    } catch { /* the server ended; EventSource reports that */ } finally { busy = false; }
    settle();
  };
  // settle requests counts that were not ready, up to five times.
  let waits = 0, waiting = false;
  const settle = () => {
    if (waiting || waits > 4 || !$("[data-unsure]", timeline)) return;
    waiting = true;
    setTimeout(() => { waiting = false; sync(true); }, 1000 << waits++);
  };
  let note = ""; // the status line while there is no other message
  const say = (text) => { $("#status").textContent = text || note; };
  const lost = (forGood) => say(forGood ? "the cachebro ui that served this page has ended; start it again and open the address that it prints" : "cachebro ui does not answer: it has ended, or is busy");
  document.addEventListener("htmx:sendError", () => lost(false));
  document.addEventListener("htmx:responseError", (e) => lost(e.detail.xhr.status === 403));
  document.addEventListener("htmx:afterRequest", (e) => { if (e.detail.successful) say(""); });
  const listen = () => {
    if (source || document.hidden) return;
    source = new EventSource("events");
    source.addEventListener("changed", (e) => {
      wanted = Number(e.data);
      say("");
      if (timeline && timeline.dataset.loaded && wanted > newest) { waits = 0; sync(false); }
      document.body.dispatchEvent(new CustomEvent("changed"));
    });
    source.addEventListener("note", (e) => { note = e.data; say(""); });
    source.addEventListener("ended", (e) => { source.close(); note = e.data; say(""); });
    source.onopen = () => say("");
    source.onerror = () => lost(source.readyState === EventSource.CLOSED);
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else listen();
  });
  document.addEventListener("htmx:afterSettle", (e) => {
    if (timeline && timeline.contains(e.target) && !$(":scope > .problem", timeline)) { timeline.dataset.loaded = "1"; noteNewest(); if (wanted > newest) sync(false); else settle(); }
    if (e.target.id === "plan-body" && !$("#plan").open) $("#plan").showModal();
    if (e.target.id === "plan-body" && $("[data-done]", e.target)) sync(true);
  });
  listen();

  // --- one file: while the user holds the slider, new versions do not move it
  const slider = $("#slider");
  if (slider) {
    const form = slider.form, of = $("#of");
    const moved = () => { of.value = slider.value; };
    slider.addEventListener("input", moved);
    form.addEventListener("click", (e) => {
      const by = Number(e.target.closest("[data-step]")?.dataset.step);
      if (!by) return;
      slider.stepUp(by);
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    });
    document.addEventListener("htmx:afterSettle", () => {
      const now = $("#version [data-n]");
      if (!now) return;
      form.elements.view.value = now.dataset.view;
      if (document.activeElement !== slider) { slider.value = now.dataset.n; moved(); }
    });
  }
  $("[data-hit]")?.scrollIntoView({ block: "center" });

  document.addEventListener("input", (e) => {
    const over = e.target.matches("[data-swipe]") && $(".over", e.target.closest(".swipe"));
    if (over) over.style.clipPath = "inset(0 0 0 " + e.target.value + "%)";
  });

  // --- lanes: select a period by dragging, or with the arrow keys (Shift extends it) and Enter
  const columns = 120;
  const goTo = (svg, a, b) => {
    const t = svg.closest("table").dataset, time = (n) => new Date(Number(t.begin) + n * Number(t.step)).toISOString();
    const q = new URLSearchParams({ since: time(Math.min(a, b)), until: time(Math.max(a, b) + 1) });
    if (svg.dataset.lane) q.set("session", svg.dataset.lane);
    location.href = "./?" + q;
  };
  const brush = (svg, a, b) => {
    const r = $(".brush", svg);
    r.setAttribute("x", Math.min(a, b) * 8);
    r.setAttribute("width", (Math.abs(b - a) + 1) * 8 - 2);
    const t = svg.closest("table").dataset, at = (n) => new Date(Number(t.begin) + n * Number(t.step)).toLocaleString();
    say(a === b ? at(b) : at(Math.min(a, b)) + " – " + at(Math.max(a, b)));
  };
  const columnAt = (svg, e) => {
    const r = svg.getBoundingClientRect();
    return Math.min(Math.max(Math.floor((e.clientX - r.left) / r.width * columns), 0), columns - 1);
  };
  let drag = null;
  document.addEventListener("pointerdown", (e) => {
    const svg = e.target.closest("[data-lane]");
    if (svg) { drag = { svg, from: columnAt(svg, e), to: columnAt(svg, e) }; }
  });
  document.addEventListener("pointermove", (e) => {
    if (drag) { drag.to = columnAt(drag.svg, e); if (drag.to !== drag.from) brush(drag.svg, drag.from, drag.to); }
  });
  document.addEventListener("pointerup", () => {
    if (drag && drag.to !== drag.from) goTo(drag.svg, drag.from, drag.to);
    drag = null;
  });
  document.addEventListener("dragstart", (e) => { if (e.target.closest("[data-lane]")) e.preventDefault(); });
  const marked = new WeakMap(); // by lane: the first and last selected column
  document.addEventListener("keydown", (e) => {
    const svg = e.target.closest?.("[data-lane]");
    if (!svg || e.ctrlKey || e.metaKey || e.altKey) return;
    const now = marked.get(svg) || { from: columns - 1, to: columns }, by = { ArrowLeft: -1, ArrowRight: 1, Home: -columns, End: columns }[e.key];
    if (e.key === "Enter" && marked.has(svg)) { goTo(svg, now.from, now.to); e.preventDefault(); return; }
    if (!by) return;
    e.preventDefault();
    now.to = Math.min(Math.max(now.to + by, 0), columns - 1);
    if (!e.shiftKey) now.from = now.to;
    marked.set(svg, now);
    brush(svg, now.from, now.to);
  });

  // --- a plan: choose its files, hunks and lines
  const picksOf = (e) => $$("[data-pick=line]", e);
  const hunkLines = (box) => {
    const all = [];
    for (let r = box.closest("tr").nextElementSibling; r && !r.matches(".hunk"); r = r.nextElementSibling) all.push(...picksOf(r));
    return all;
  };
  const sum = (box, lines) => {
    const on = lines.filter((l) => l.checked).length;
    if (!lines.length) return;
    box.checked = on > 0;
    box.indeterminate = on > 0 && on < lines.length;
  };
  const picked = (form) => {
    for (const h of $$("[data-pick=hunk]", form)) sum(h, hunkLines(h));
    for (const f of $$("[data-pick=file]", form)) sum(f, picksOf(f.closest("li")));
    const files = $$("[data-pick=file]", form), all = files.length ? files : picksOf(form);
    $(".go", form).disabled = all.length > 0 && !all.some((e) => e.checked);
  };
  document.addEventListener("change", (e) => {
    const box = e.target.closest("[data-pick]");
    if (!box) return;
    const below = { file: () => picksOf(box.closest("li")), hunk: () => hunkLines(box), line: () => [] }[box.dataset.pick]();
    for (const l of below) l.checked = box.checked;
    picked(box.form);
  });
  // A file's lines are loaded when its row is opened. They are checked only if the file is checked.
  document.addEventListener("htmx:afterSettle", (e) => {
    const file = e.target.closest?.("#plan li") && $("[data-pick=file]", e.target.closest("#plan li"));
    if (file && !file.checked) { for (const l of picksOf(e.target)) l.checked = false; picked(file.form); }
  });
  document.addEventListener("keydown", (e) => {
    const by = e.target.matches?.("[data-pick]") && { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!by) return;
    const all = $$("[data-pick]", e.target.form).filter((b) => b.offsetParent !== null);
    all[all.indexOf(e.target) + by]?.focus();
    e.preventDefault();
  });

  // --- keys
  const rows = () => $$("[data-row]").filter((e) => e.offsetParent !== null);
  let current = null;
  const choose = (e) => {
    if (!e) return;
    current?.classList.remove("chosen");
    current = e;
    e.classList.add("chosen");
    (e.tagName === "DETAILS" ? $("summary", e) : e).focus({ preventScroll: true });
    e.scrollIntoView({ block: "nearest" });
  };
  const move = (by) => {
    const all = rows();
    const at = document.activeElement.closest?.("[data-row]");
    const i = all.indexOf(at || current);
    choose(all[Math.min(Math.max(i + by, 0), all.length - 1)]);
  };

  // --- the tree of a set of changes; a file that is not on the page yet is found by loading more
  const tree = $("#tree");
  let goal = tree ? location.hash.slice(1) : "";
  const markGoal = () => { for (const a of $$("a", tree)) a.setAttribute("aria-current", a.hash === location.hash); };
  const toGoal = () => {
    const row = goal && document.getElementById(goal);
    if (!row) { if (goal) $("#timeline .more button")?.click(); return; }
    goal = "";
    markGoal();
    const d = $("details", row);
    if (d) d.open = true;
    choose(d || row.closest("[data-row]"));
    row.scrollIntoView({ block: "start" });
  };
  if (tree) {
    addEventListener("hashchange", () => { goal = location.hash.slice(1); toGoal(); });
    document.addEventListener("htmx:afterSettle", (e) => { if (e.target === tree) markGoal(); else if (goal && e.target.closest("#timeline")) toGoal(); });
    tree.addEventListener("click", (e) => {
      const a = e.target.closest("a");
      if (a && a.hash === location.hash) { goal = a.hash.slice(1); toGoal(); }
    });
    tree.addEventListener("keydown", (e) => {
      const here = e.target.closest("summary, a"), all = $$("summary, a", tree).filter((x) => x.checkVisibility());
      const i = all.indexOf(here), d = here?.matches("summary") && here.parentElement;
      if (i < 0 || e.ctrlKey || e.metaKey || e.altKey) return;
      let to = null;
      switch (e.key) {
        case "ArrowDown": to = all[i + 1]; break;
        case "ArrowUp": to = all[i - 1]; break;
        case "Home": to = all[0]; break;
        case "End": to = all[all.length - 1]; break;
        case "ArrowRight": if (d && !d.open) d.open = true; else if (d) to = all[i + 1]; break;
        case "ArrowLeft": if (d && d.open) d.open = false; else to = $("summary", (d || here).parentElement.closest("details")); break;
        default: return;
      }
      to?.focus();
      e.preventDefault();
    });
  }
  const close = () => { for (const d of $$("dialog[open]")) d.close(); };
  let go = false;
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
    const typing = e.target.matches?.("input, textarea, select");
    if (typing) { if (e.key === "Escape") e.target.blur(); return; }
    if ($("dialog[open]")) return; // a dialog has its own keys
    const here = document.activeElement.closest?.("[data-row]") || current;
    if (go && e.key >= "1" && e.key <= "9") { $$("nav a")[e.key - 1]?.click(); go = false; return; }
    go = e.key === "g";
    switch (e.key) {
      case "j": move(1); break;
      case "k": move(-1); break;
      case "o": case "Enter": {
        if (e.key === "Enter" && e.target.closest("summary, button, a")) return;
        const d = here?.matches("details") ? here : here && $("details", here);
        if (d) d.open = !d.open;
        break;
      }
      case "s": (here && $("[data-other]", here) || $("[data-other]"))?.click(); break;
      case "u": (here?.closest("li") && $(".take", here.closest("li")) || here && $(".take", here) || here?.closest(".action") && $(".take", here.closest(".action")))?.click(); break;
      case "/": { const s = $("#q"); if (s) s.focus(); else $("nav a[href^=search]")?.click(); break; }
      case "t": if (tree) $("summary", tree)?.focus(); break;
      case "?": $("#keys").showModal(); break;
      default: return;
    }
    e.preventDefault();
  });
  document.addEventListener("click", (e) => {
    if (e.target.closest("[data-keys]")) $("#keys").showModal();
    if (e.target.closest("[data-close]")) close();
    const copy = e.target.closest("[data-copy]");
    if (copy) { // in a form, also copy the text typed so far
      const said = $("textarea", copy.closest("form") || copy)?.value || "";
      navigator.clipboard.writeText(copy.dataset.copy + said).then(() => { copy.textContent = "copied"; }, () => say("the browser does not let this page copy"));
    }
  });
})();
