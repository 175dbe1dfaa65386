package chaos

// TestPackage is for the tests that lie in a package of their own.
var TestPackage = testPackage
