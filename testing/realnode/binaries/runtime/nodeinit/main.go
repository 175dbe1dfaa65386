// Command nodeinit is process 1 of a real node. It hides the machine's directories at paths that are hard-coded in
// kubelet and containerd, starts both programs, and reaps all ended child processes. A killed containerd is started
// again, as systemd would do. When nodeinit dies, the kernel kills every process of the node and removes its mounts.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// config is the content of the configuration file, whose path is the program's only argument.
type config struct {
	// Hide lists the directories over which the node mounts an empty file system.
	Hide []string
	// Runtime and Kubelet are command lines whose output is logged in Logs.
	Runtime, Kubelet []string
	// Socket must accept connections before the kubelet is started: on a stale socket the kubelet exits at once.
	Socket string
	Logs   string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "nodeinit:", err)
		os.Exit(1)
	}
}

func run() error {
	if os.Getpid() != 1 || len(os.Args) != 2 {
		return errors.New("usage: nodeinit CONFIG, as process 1 of its PID and mount namespaces")
	}
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var c config
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%s: %w", os.Args[1], err)
	}
	if err := mounts(c.Hide); err != nil {
		return err
	}
	runtime, err := start(c.Runtime, c.Logs)
	if err != nil {
		return err
	}
	if err := dial(c.Socket, runtime); err != nil {
		return err
	}
	kubelet, err := start(c.Kubelet, c.Logs)
	if err != nil {
		return err
	}
	for {
		ended, status, err := reap(runtime, kubelet)
		switch {
		case err != nil:
			return err
		case ended == kubelet || !status.Signaled():
			return fmt.Errorf("%s ended with status %d, signal %d", map[int]string{runtime: "containerd", kubelet: "kubelet"}[ended], status.ExitStatus(), status.Signal())
		}
		if runtime, err = start(c.Runtime, c.Logs); err != nil {
			return err
		}
	}
}

func mounts(hide []string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, dir := range hide {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	return nil
}

func start(command []string, logs string) (int, error) {
	path := filepath.Join(logs, filepath.Base(command[0])+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

// dial returns when the socket of the runtime accepts connections.
func dial(socket string, runtime int) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn.Close()
		}
		var status syscall.WaitStatus
		if pid, _ := syscall.Wait4(runtime, &status, syscall.WNOHANG, nil); pid == runtime {
			return fmt.Errorf("containerd ended with status %d", status.ExitStatus())
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// reap collects orphans until a given process ends.
func reap(processes ...int) (ended int, status syscall.WaitStatus, err error) {
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, status, fmt.Errorf("wait for processes: %w", err)
		}
		if slices.Contains(processes, pid) {
			return pid, status, nil
		}
	}
}
