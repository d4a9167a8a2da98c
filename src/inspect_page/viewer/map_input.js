// How a map is moved: wheel, dragging, two fingers, keys.

const mapKeys = {
  ArrowLeft: (map, far) => map.step(0, -far), ArrowRight: (map, far) => map.step(0, far),
  ArrowUp: (map, far) => map.step(-far, 0), ArrowDown: (map, far) => map.step(far, 0),
  "+": (map) => map.zoomChosen(1.5), "=": (map) => map.zoomChosen(1.5), "-": (map) => map.zoomChosen(1 / 1.5),
  "0": (map) => map.fit(), Home: (map) => map.fit(),
};

Object.assign(MapView.prototype, {
  listen() {
    const canvas = this.canvas, place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)), ...place(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event));
      this.travelled = 0;
    });
    canvas.addEventListener("pointermove", (event) => this.pointerMoved(event.pointerId, place(event)));
    const lift = (event) => {
      if (this.pointers.delete(event.pointerId) && event.type === "pointerup" && this.travelled < 5) this.choose(this.at(...place(event)));
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("dblclick", (event) => this.zoom(2, ...place(event)));
    canvas.addEventListener("keydown", (event) => {
      const act = !event.ctrlKey && !event.metaKey && !event.altKey && mapKeys[event.key];
      if (!act) return;
      event.preventDefault();
      act(this, event.shiftKey ? 10 : 1);
    });
  },

  pointerMoved(id, now) {
    const before = this.pointers.get(id);
    if (!before) return this.hover(this.at(...now), ...now);
    const shift = [now[0] - before[0], now[1] - before[1]];
    this.travelled += Math.hypot(...shift);
    if (this.pointers.size > 1) {
      const other = [...this.pointers].find(([key]) => key !== id)[1];
      const apart = (a) => Math.max(10, Math.hypot(a[0] - other[0], a[1] - other[1]));
      this.pointers.set(id, now);
      return this.zoom(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    }
    this.pointers.set(id, now);
    this.x -= shift[0] / this.scale;
    this.y -= shift[1] / this.scale;
    this.moved();
  },

  step(rows, columns) {
    const [row, column] = this.chosen || [Math.floor(this.y + this.side / this.scale / 2), Math.floor(this.x + this.side / this.scale / 2)];
    const within = (at, size) => Math.max(0, Math.min(size - 1, at));
    this.choose([within(row + rows, this.data.rows), within(column + columns, this.data.columns)]);
    this.reveal(this.chosen);
  },

  zoomChosen(factor) {
    if (!this.chosen) return this.zoom(factor);
    this.reveal(this.chosen);
    const [row, column] = this.chosen;
    this.zoom(factor, (column + 0.5 - this.x) * this.scale, (row + 0.5 - this.y) * this.scale);
  },
});
