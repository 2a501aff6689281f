// A film that is played, stopped and moved by hand. Its frames came with the figure.
(() => {
  const find = (name) => document.getElementById(`film-${name}`);
  const plot = () => document.querySelector(".plot .js-plotly-plot");
  let moment = null, timer = null, drawn = null;

  const times = () => plot()?.layout?.meta?.times || [];
  const draw = async () => {
    const el = plot(), range = find("moment"), all = times();
    if (!el || !range || !all.length) return;
    range.max = all.length - 1;
    if (moment === null || moment > all.length - 1) moment = all.length - 1;
    range.value = moment;
    const words = `t = ${Number(all[moment]).toPrecision(3)}`;
    find("time").textContent = words;
    range.setAttribute("aria-valuetext", words);
    drawn = el.layout;
    const { Plotly } = await import("nicegui-plotly");
    const still = { mode: "immediate", frame: { duration: 0, redraw: false }, transition: { duration: 0 } };
    Plotly.animate(el, [String(moment)], still).catch(() => {});
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
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
    stop();
    moment = Number(event.target.value);
    draw();
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "film-speed" && timer) { stop(); play(); }
  });
  // A new figure has come: it shows the moment that was shown before.
  setInterval(() => { const el = plot(); if (el?.layout?.meta && el.layout !== drawn) draw(); }, 300);
})();
