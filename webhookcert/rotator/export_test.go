package rotator

// SetHost replaces Options.Host by one that New refuses. It must be called before Start.
func (r *Rotator) SetHost(host string) { r.options.Host = host }

// ReplaceFiles replaces the files in a directory.
func ReplaceFiles(directory string, files map[string][]byte) error {
	return replaceFiles(directory, files)
}
