// Keeps the list up to date and shows times as the reader's clock has them. Everything else works without it.
"use strict";

const PAUSE_MS = 2000;
const base = document.body.dataset.base;
const news = document.getElementById("news");

const showTimes = (root) => {
  const today = new Date().toDateString();
  for (const element of root.querySelectorAll("time")) {
    const at = new Date(element.dateTime);
    const isToday = at.toDateString() === today;
    element.textContent = isToday
      ? at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
      : at.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
    element.title = at.toLocaleString();
  }
};

const state = async () => {
  const answer = await fetch(`${base}/api/v1/info`);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const { Messages, Latest } = await answer.json();
  return { count: Messages, latest: Number(Latest) };
};

// Replaces the list by the one of a fresh page, without moving the focus.
const refresh = async () => {
  const answer = await fetch(window.location.href);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const list = document.getElementById("list");
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const scrolled = list.scrollTop;
  list.innerHTML = fresh.getElementById("list").innerHTML;
  list.scrollTop = scrolled;
  showTimes(list);
  if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  document.querySelector("header button").disabled = fresh.querySelector("header button").disabled;
};

let known = null;
const look = async () => {
  if (document.hidden) return;
  const now = await state();
  if (known && (now.latest !== known.latest || now.count !== known.count)) {
    await refresh();
    if (now.latest > known.latest) {
      const subject = document.querySelector("#list .subject")?.textContent ?? "";
      news.textContent = `New mail: ${subject}`;
    }
  }
  known = now;
};

const follow = async () => {
  try {
    await look();
  } catch {
    // The server restarts; it will be back.
  }
  setTimeout(follow, PAUSE_MS);
};

showTimes(document);
document.addEventListener("visibilitychange", () => void look().catch(() => {}));
void follow();
