// A browser starts no worker from a file. There the search runs in a hidden frame of the page instead.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.addEventListener("load", () => this.load(url), { once: true });
      document.body.append(this.frame);
    }

    load(url) {
      const inner = this.frame.contentWindow;
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.inner = inner;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      });
      inner.document.body.append(script);
    }

    postMessage(data) {
      if (!this.inner) {
        this.waiting.push(data);
        return;
      }
      this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
