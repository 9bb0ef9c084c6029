(function () {
  "use strict";
  function read(id) { return JSON.parse(document.getElementById(id).textContent); }

  function draw() {
    var specs = read("specs");
    Object.keys(specs).forEach(function (name) {
      var figure = document.querySelector('[data-chart="' + name + '"]');
      var live = figure.querySelector(".live");
      var options = { renderer: "svg", actions: false, ast: true, logLevel: 1 };
      live.hidden = false;
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
