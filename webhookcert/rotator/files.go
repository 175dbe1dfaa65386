package rotator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const dataLink = "..data"

// replaceFiles replaces several files in a directory at once. Each file is a symbolic link through a common link to a
// data directory, and replaceFiles replaces only the common link. New directories get the mode 0700, and files the
// mode
// 0600. An existing directory keeps its mode, because somebody else may own the directory, such as an emptyDir or /tmp;
// any process with write access may then replace the links. Files and links of the same names are replaced; other files
// are unchanged. Names must not contain a separator or begin with two dots.
//
// The error names the directory or file. No two calls may write to the same directory at the same time, whether from
// several goroutines or from several processes.
func replaceFiles(directory string, files map[string][]byte) error {
	for name := range files {
		if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, "..") {
			return fmt.Errorf("file name %q in %s: it must be a plain name that does not begin with two dots", name, directory)
		}
	}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	fresh, err := os.MkdirTemp(directory, dataLink+"-*") // MkdirTemp creates the directory with mode 0700
	if err != nil {
		return fmt.Errorf("making a directory for the data in %s: %w", directory, withoutPath(err))
	}
	old, _ := os.Readlink(filepath.Join(directory, dataLink)) // empty if there is no old link
	if err := publish(directory, fresh, files); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	for name := range files {
		if err := link(directory, filepath.Join(dataLink, name), name); err != nil {
			return err
		}
	}
	if strings.HasPrefix(old, dataLink+"-") && old == filepath.Base(old) {
		if err := os.RemoveAll(filepath.Join(directory, old)); err != nil {
			return fmt.Errorf("removing the data before: %w", err)
		}
	}
	return nil
}

// publish writes the files into the new directory and makes the common link point to the directory. On an error, the
// link is unchanged.
func publish(directory, fresh string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o600); err != nil {
			return fmt.Errorf("writing %s in %s: %w", name, directory, withoutPath(err))
		}
	}
	return link(directory, filepath.Base(fresh), dataLink)
}

// withoutPath removes from an error the name of a temporary directory, so that a repeated failure has the same text.
func withoutPath(err error) error {
	if wrapped := (*os.PathError)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// link makes or replaces a symbolic link in one step.
func link(directory, target, name string) error {
	path := filepath.Join(directory, name)
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("clearing the way: %w", err)
	}
	if err := os.Symlink(target, temporary); err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	return nil
}

// writeFiles writes the files if Options.Directory is set. A failure is retried separately: the Secret and the server
// in this process do not need the files. The private keys of authorities are never written to files.
func (r *Rotator) writeFiles(ctx context.Context) {
	if r.filesDue == nil || r.options.Clock.Now().Before(r.files.retryAt) {
		return
	}
	if err := replaceFiles(r.options.Directory, r.filesDue); err != nil {
		r.fail(ctx, &r.files, fmt.Errorf("writing certificate files to %s: %w", r.options.Directory, err))
		return
	}
	r.filesDue = nil
	r.files.succeeded()
}

// filesWanted returns the content of the files: CA bundle, certificate and key under all their names. nil means that no
// files are wanted.
func (r *Rotator) filesWanted() map[string][]byte {
	if r.options.Directory == "" {
		return nil
	}
	data, files := r.data(), map[string][]byte{}
	for _, name := range r.config.Keys.CACert {
		files[name] = r.material.Bundle
	}
	for _, names := range [][]string{r.config.Keys.Cert, r.config.Keys.Key} {
		var content []byte
		for _, name := range names {
			if content == nil {
				content = data[name]
			}
		}
		for _, name := range names {
			files[name] = content
		}
	}
	return files
}
