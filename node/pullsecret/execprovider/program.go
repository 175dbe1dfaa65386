package execprovider

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/workloadkit/workloadkit/reason"
)

// checkProgram checks that only root and the agent's user can change the program: the file behind symbolic links, its
// directory, and the directory of the providers.
func (p *provider) checkProgram() error {
	unsafe := reason.Reason{Code: UnsafeProgram, Object: p.object(), Path: p.program}
	file, err := filepath.EvalSymlinks(p.program)
	if err != nil {
		unsafe.Detail = "the program cannot be found"
		unsafe.Remedy = "install the program, or correct the provider's name"
		return unsafe.With(err)
	}
	for _, path := range []string{filepath.Dir(p.program), filepath.Dir(file), file} {
		info, err := os.Stat(path)
		if err != nil {
			unsafe.Path, unsafe.Detail = path, "the file cannot be examined"
			return unsafe.With(err)
		}
		detail := faultOf(info)
		if path == file && detail == "" && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
			detail = "the program is not an executable file"
		}
		if detail != "" {
			unsafe.Path, unsafe.Detail = path, detail
			unsafe.Remedy = "let root own the file, executable, and writable for nobody else"
			return unsafe
		}
	}
	return nil
}

// faultOf returns a text that says which users besides root and the agent's user can change a file; empty if no other
// user can.
func faultOf(info fs.FileInfo) string {
	if info.Mode()&0o022 != 0 {
		return "the group or others may write"
	}
	if !isTrusted(info) {
		return "the owner is neither root nor the agent's user"
	}
	return ""
}
