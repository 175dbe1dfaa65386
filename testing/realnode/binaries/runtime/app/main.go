// Command app is what containers of the real-node tests run. "app pause" waits for its end; without an argument it
// serves HTTP on PORT (8080): / answers VERSION, after the time that /?after=D asks for, /ready is 200 once START_DELAY
// is over, /env?name=X answers a variable, and /file?path=P reads a file or, with PUT, writes it. On SIGTERM it ends at
// once, without an answer to requests that it has begun.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "pause" {
		<-ctx.Done()
		return
	}
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	delay := time.Duration(0)
	if text := os.Getenv("START_DELAY"); text != "" {
		var err error
		if delay, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("START_DELAY: %w", err)
		}
	}
	ready := time.Now().Add(delay)
	mux := http.NewServeMux()
	mux.HandleFunc("/", version)
	mux.HandleFunc("/env", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, os.Getenv(r.FormValue("name"))) })
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(ready) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/file", file)
	server := &http.Server{Addr: ":" + port, Handler: mux}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func version(w http.ResponseWriter, r *http.Request) {
	if text := r.FormValue("after"); text != "" {
		after, err := time.ParseDuration(text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(after)
	}
	fmt.Fprint(w, os.Getenv("VERSION"))
}

func file(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	var data []byte
	var err error
	if r.Method == http.MethodPut {
		if data, err = io.ReadAll(r.Body); err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(data)
}
