package rotator

// SetHost sets Options.Host to a host that New would refuse. Call SetHost before Start.
func (r *Rotator) SetHost(host string) { r.options.Host = host }

// ReplaceFiles exports replaceFiles for tests.
func ReplaceFiles(directory string, files map[string][]byte) error {
	return replaceFiles(directory, files)
}
