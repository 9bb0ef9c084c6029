(function () {
  "use strict";
  function read(id) { return JSON.parse(document.getElementById(id).textContent); }

  // On a phone a long title of a horizontal axis, or a third legend in a row, would be cut at the edge of the chart.
  function narrow(part, letters) {
    if (part === null || typeof part !== "object") { return; }
    Object.keys(part).forEach(function (key) {
      if (key === "x" && part.x && typeof part.x.title === "string") { part.x.title = lines(part.x.title, letters); }
      if (key === "legend" && part.legend && part.legend.columns > 2) { part.legend.columns = 2; }
      if (key !== "data" && key !== "datasets") { narrow(part[key], letters); }
    });
  }

  function lines(text, letters) {
    var found = [""];
    text.split(" ").forEach(function (word) {
      var last = found[found.length - 1];
      if (last && last.length + 1 + word.length > letters) { found.push(word); }
      else { found[found.length - 1] = last ? last + " " + word : word; }
    });
    return found;
  }

  function draw() {
    var specs = read("specs");
    Object.keys(specs).forEach(function (name) {
      var figure = document.querySelector('[data-chart="' + name + '"]');
      var live = figure.querySelector(".live");
      var options = { renderer: "svg", actions: false, ast: true, logLevel: 1 };
      live.hidden = false;
      if (live.clientWidth < 480) {
        narrow(specs[name], Math.floor(live.clientWidth / 7));
        specs[name].config.axisX = { titleAnchor: "end" };
      }
      window.vegaEmbed(live, specs[name], options).then(function () {
        figure.classList.add("drawn");
      }, function (error) {
        live.hidden = true;
        console.error(name, error);
      });
    });
  }

  draw();
})();
