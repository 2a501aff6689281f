/* Formulas are MathML, which the browser draws. Without a font for mathematics on the reader's system some browsers put
   subscripts on the line: where that is so, the page gets a class, and limitlab.css moves them. */
document.addEventListener("DOMContentLoaded", () => {
  const probe = document.createElement("div");
  probe.style.cssText = "position: absolute; visibility: hidden; font-size: 40px";
  probe.innerHTML = "<math><msub><mi>x</mi><mi>x</mi></msub></math>";
  document.body.append(probe);
  const [base, low] = [...probe.querySelectorAll("mi")].map((one) => one.getBoundingClientRect().bottom);
  probe.remove();
  document.documentElement.classList.toggle("plain-formulas", low - base < 4);
});
