// Command app is the program in containers of the real-node tests. "app pause" waits until it is stopped, "app exit N"
// exits with code N, and "app write PATH TEXT" writes a file. If there is no argument, the program serves HTTP on PORT
// (8080): / returns VERSION, after the time in /?after=D, /ready returns 200 once START_DELAY is over, /env?name=X
// returns a variable, and /file?path=P reads a file or, with PUT, writes the file. On SIGTERM the program exits at
// once, without answering pending requests, or after STOP_DELAY.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return serve(ctx)
	case len(args) == 1 && args[0] == "pause":
		<-ctx.Done()
		return nil
	case len(args) == 2 && args[0] == "exit":
		code, err := strconv.Atoi(args[1])
		if err == nil {
			os.Exit(code)
		}
		return err
	case len(args) == 3 && args[0] == "write":
		return os.WriteFile(args[1], []byte(args[2]), 0o600)
	}
	return fmt.Errorf("unexpected arguments %q", args)
}

func serve(ctx context.Context) error {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	startDelay, err := duration("START_DELAY")
	if err != nil {
		return err
	}
	stopDelay, err := duration("STOP_DELAY")
	if err != nil {
		return err
	}
	ready := time.Now().Add(startDelay)
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
	context.AfterFunc(ctx, func() {
		time.Sleep(stopDelay)
		server.Close()
	})
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// duration parses an environment variable as a duration, 0 if empty.
func duration(name string) (time.Duration, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
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
