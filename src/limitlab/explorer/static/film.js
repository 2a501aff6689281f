// A film that is played, stopped and moved by hand. Its frames came with the figure.
(() => {
  const find = (name) => document.getElementById(`film-${name}`);
  const plot = () => document.querySelector(".plot .js-plotly-plot");
  const asked = /^#moment=(\d{1,4})$/.exec(location.hash);  // an address may hold the moment that was looked at
  let moment = asked ? Number(asked[1]) : null, timer = null, drawn = null;

  const times = () => plot()?.layout?.meta?.times || [];
  const draw = async () => {
    const el = plot(), range = find("moment"), all = times();
    if (!el || !range || !all.length) return;
    const last = all.length - 1;
    range.max = last;
    if (moment === null || moment > last) moment = last;
    range.value = moment;
    const words = `t = ${Number(all[moment]).toPrecision(3)}`;
    find("time").textContent = words;
    range.setAttribute("aria-valuetext", words);
    drawn = el.layout;
    const { Plotly } = await import("nicegui-plotly");
    const still = { mode: "immediate", frame: { duration: 0, redraw: false }, transition: { duration: 0 } };
    Plotly.animate(el, [String(moment)], still).catch(() => {});
  };
  const keep = () => {
    const end = moment === null || moment >= times().length - 1 ? "" : `#moment=${moment}`;
    if (location.hash !== end) history.replaceState(history.state, "", location.pathname + location.search + end);
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    keep();
    const button = find("play");
    if (button) button.textContent = "play";
  };
  const play = () => {
    if (timer) return stop();
    if (moment === null || moment >= times().length - 1) moment = -1;
    find("play").textContent = "pause";
    timer = setInterval(() => {
      if (moment >= times().length - 1) return stop();
      moment += 1;
      draw();
    }, Number(find("speed").value));
  };
  document.addEventListener("click", (event) => { if (event.target.id === "film-play") play(); });
  document.addEventListener("input", (event) => {
    if (event.target.id !== "film-moment") return;
    moment = Number(event.target.value);
    stop();
    draw();
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "film-speed" && timer) { stop(); play(); }
  });
  // A new figure has come: it shows the moment that was shown before.
  setInterval(() => { const el = plot(); if (el?.layout?.meta && el.layout !== drawn) draw(); }, 300);
})();
