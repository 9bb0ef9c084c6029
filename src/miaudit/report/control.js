(function () {
  "use strict";
  function read(id) { return JSON.parse(document.getElementById(id).textContent); }

  // To so many significant digits: the nearest (way 0), below (-1) as a lower limit, above (1) as an upper limit.
  function rounded(value, digits, way) {
    var near = Number(value.toPrecision(digits)), slack = 1e-12 * Math.abs(value);
    if (way * (value - near) <= slack) return near;
    return Number((near + way * Math.pow(10, Math.floor(Math.log10(Math.abs(value))) + 1 - digits)).toPrecision(digits));
  }

  function percent(rate, way) {
    var of100 = rounded(100 * rate, 3, way || 0);
    return String(of100 === 100 && rate < 1 ? rounded(100 * rate, 6, way || 0) : of100) + "%";
  }

  function curveAt(points, fpr) {
    if (fpr <= points[0][0]) return points[0];
    for (var i = 1; i < points.length; i += 1) {
      if (fpr <= points[i][0]) {
        var before = points[i - 1], after = points[i];
        var share = Math.log(fpr / before[0]) / Math.log(after[0] / before[0]);
        return before.map(function (value, k) { return value + share * (after[k] - value); });
      }
    }
    return points[points.length - 1];
  }

  function control() {
    var given = read("control-data");
    if (!given) return;
    var byId = function (id) { return document.getElementById(id); };
    var fprSlider = byId("fpr-slider"), fprNumber = byId("fpr-number");
    var priorSlider = byId("prior-slider"), priorNumber = byId("prior-number");
    var fpr = given.start, prior = given.prior;
    var lowest = given.points[0][0];
    fprSlider.min = Math.floor(100 * Math.log10(lowest)) / 100;

    function precision(tpr) {
      var accused = prior * tpr + (1 - prior) * fpr;
      return accused > 0 ? prior * tpr / accused : 0;
    }

    function people(share, way) {
      var of100 = 100 * share;
      if (of100 < 0.95) return String(rounded(of100, 1, way || 0));
      return String(rounded(of100, of100 > 99 && share < 1 ? 3 : of100 < 9.5 ? 1 : 2, way || 0));
    }

    function show() {
      var at = curveAt(given.points, fpr), tpr = at[1], low = at[2], high = at[3];
      var resolved = fpr >= given.smallest * (1 - 1e-9);
      var odds = "when " + percent(prior) + " of those in question are members";
      byId("control-result").dataset.resolved = String(resolved);
      if (resolved) {
        byId("tpr-out").textContent = percent(tpr);
        byId("tpr-limits").textContent = percent(low, -1) + " to " + percent(high, 1);
        byId("ppv-out").textContent = percent(precision(tpr));
        byId("ppv-limits").textContent = percent(precision(low), -1) + " to " + percent(precision(high), 1);
        byId("sentence").textContent = "Of 100 people accused, about " + people(precision(tpr)) + " (between " +
          people(precision(low), -1) + " and " + people(precision(high), 1) + ") would be members, " + odds + ".";
      } else {
        byId("tpr-out").textContent = "≤ " + percent(high, 1);
        byId("ppv-out").textContent = "≤ " + percent(precision(high), 1);
        byId("tpr-limits").textContent = byId("ppv-limits").textContent = "upper limit only";
        byId("sentence").textContent = "Not resolvable, upper limit only: " + given.nonmembers +
          " say nothing certain at an FPR below " + percent(given.smallest, -1) +
          ". Of 100 people accused, at most " + people(precision(high), 1) + " would be members, " + odds + ".";
      }
      fprSlider.setAttribute("aria-valuetext", percent(fpr));
      priorSlider.setAttribute("aria-valuetext", percent(prior));
    }

    function placeFpr(keepNumber) {
      fprSlider.value = Math.log10(fpr);
      if (!keepNumber) fprNumber.value = Number((100 * fpr).toPrecision(3));
      show();
    }
    function placePrior(keepNumber) {
      priorSlider.value = Math.log(prior / (1 - prior));
      if (!keepNumber) priorNumber.value = Number((100 * prior).toPrecision(3));
      show();
    }
    function typed(input, least, most) {
      var value = Number(input.value) / 100;
      var good = input.value !== "" && value >= least && value <= most;
      input.setAttribute("aria-invalid", String(!good));
      return good ? value : null;
    }

    fprSlider.addEventListener("input", function () {
      fpr = Math.min(1, Number((Math.pow(10, Number(fprSlider.value))).toPrecision(2)));
      fpr = Math.max(lowest, fpr);
      fprNumber.value = Number((100 * fpr).toPrecision(3));
      fprNumber.setAttribute("aria-invalid", "false");
      show();
    });
    priorSlider.addEventListener("input", function () {
      prior = Number((1 / (1 + Math.exp(-Number(priorSlider.value)))).toPrecision(2));
      priorNumber.value = Number((100 * prior).toPrecision(3));
      priorNumber.setAttribute("aria-invalid", "false");
      show();
    });
    fprNumber.addEventListener("input", function () {
      var value = typed(fprNumber, lowest, 1);
      if (value !== null) { fpr = value; placeFpr(true); }
    });
    priorNumber.addEventListener("input", function () {
      var value = typed(priorNumber, 1e-6, 1 - 1e-6);
      if (value !== null) { prior = value; placePrior(true); }
    });
    byId("control").hidden = false;
    placeFpr(false);
    placePrior(false);
  }

  control();
})();
