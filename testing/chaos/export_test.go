package chaos

// TestPackage is for tests in the external test package.
var TestPackage = testPackage
