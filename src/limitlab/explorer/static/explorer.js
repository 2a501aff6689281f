// What the browser does by itself: the form tells the server what changed, the address and the theme.
(() => {
  const root = document.documentElement;
  const wish = () => localStorage.getItem("limitlab-theme");
  const dark = () => (wish() ? wish() === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const narrow = () => innerWidth < 900;
  const paint = () => { root.dataset.theme = dark() ? "dark" : "light"; };
  paint();

  const waiting = new Map();
  let timer = null;
  const flush = () => {
    clearTimeout(timer);
    timer = null;
    for (const [key, [value, last]] of waiting) emitEvent("field", { key, value, last });
    waiting.clear();
  };
  const say = (key, value, last, pause = 60) => {
    waiting.set(key, [String(value), last]);
    if (last) flush();
    else if (pause > 100) { clearTimeout(timer); timer = setTimeout(flush, pause); }
    else if (!timer) timer = setTimeout(flush, pause);
  };
  const rounded = (x, whole) => (whole ? Math.round(x) : Number(x.toPrecision(3)));
  const box = (el) => (el.closest ? el.closest(".field") : null);
  const moved = (event, last) => {
    const el = event.target, field = box(el);
    if (!field || !el.type) return;
    const key = field.dataset.key, number = field.querySelector("input[type=number]");
    const range = field.querySelector("input[type=range]");
    if (el.type === "range") {
      const whole = number.step !== "any" && Number(number.step) % 1 === 0;
      const value = field.dataset.log ? rounded(10 ** Number(el.value), whole) : Number(el.value);
      const inside = Math.min(Math.max(value, Number(number.min)), Number(number.max));
      number.value = inside;
      say(key, inside, last);
    } else if (el.type === "number") {
      if (!last) return;
      if (el.value !== "") range.value = field.dataset.log ? Math.log10(Number(el.value)) : el.value;
      say(key, el.value, true);
    } else if (el.type === "checkbox") {
      if (last) say(key, el.checked ? "1" : "0", true);
    } else if (el.tagName === "SELECT") {
      if (last) say(key, el.value, true);
    } else {
      say(key, el.value, last, 350);
    }
  };
  document.addEventListener("input", (event) => moved(event, false));
  document.addEventListener("change", (event) => moved(event, true));
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll("details.menu[open]"))
      if (!open.contains(event.target) || event.target.closest(".menu-body")) open.open = false;
    const theme = event.target.closest ? event.target.closest("#theme") : null;
    if (theme) {
      localStorage.setItem("limitlab-theme", dark() ? "light" : "dark");
      paint();
      emitEvent("screen", explorer.screen());
    }
  });
  document.addEventListener("keydown", (event) => {
    const desk = document.querySelector(".desk");
    if (event.key === "Tab" && desk) {  // its order is that of the eye (reading-flow), once that is set on the page as it is
      desk.style.readingFlow = "normal";
      void desk.offsetHeight;
      desk.style.readingFlow = "";
      void desk.offsetHeight;
    }
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details[open]")) {
      if (open.contains(document.activeElement)) open.querySelector("summary").focus();
      open.open = false;
    }
  });
  addEventListener("popstate", () => emitEvent("address", location.search));
  let was = narrow();
  addEventListener("resize", () => {
    if (narrow() !== was) { was = narrow(); emitEvent("screen", explorer.screen()); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    paint();
    emitEvent("screen", explorer.screen());
  });

  // The bar of a lost connection is shown by NiceGUI once a page was connected; a page that never was must say so too.
  const look = setInterval(() => {
    if (!window.socket) return;
    clearInterval(look);
    window.socket.on("connect_error", () => { document.getElementById("popup").ariaHidden = false; });
  }, 50);

  window.explorer = {
    screen: () => {
      document.querySelector("nav a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
      return { dark: dark(), narrow: narrow(), query: location.search };
    },
    address: (url) => {  // what stands behind # is a film's moment, and stays
      if (location.pathname + location.search !== url) history.pushState({}, "", url + location.hash);
    },
    faults: (faults) => {
      for (const field of document.querySelectorAll(".field")) {
        const words = faults[field.dataset.key] || "";
        field.querySelector(".fault").textContent = words;
        field.classList.toggle("wrong", Boolean(words));
        for (const el of field.querySelectorAll("input, select")) el.setAttribute("aria-invalid", String(Boolean(words)));
      }
    },
    fill: (values) => {
      for (const field of document.querySelectorAll(".field")) {
        const value = values[field.dataset.key];
        if (value === undefined) continue;
        for (const el of field.querySelectorAll("input, select")) {
          if (el.type === "checkbox") el.checked = value === "1";
          else if (el.type === "range") el.value = field.dataset.log ? Math.log10(Number(value)) : value;
          else el.value = value;
        }
      }
    },
    copy: async (text) => {
      try { await navigator.clipboard.writeText(text); return true; } catch { return false; }
    },
  };
})();
