"""Templates from which projects can be made."""

STARTERS = {
    'Android': {
        'app/build.gradle': 'applicationId "example.app"\nminSdk 24',
        'settings.gradle': 'include ":app"',
    },
    'Static site': {
        'index.html': '<!doctype html>\n<title>My site</title>',
        'style.css': 'body { max-width: 40rem; margin: auto; }',
    },
    'Python package': {
        'pyproject.toml': '[project]\nname = "package"\nversion = "0.1"',
        'src/package/__init__.py': '"""A package."""',
    },
    'Go service': {
        'go.mod': 'module example/service',
        'main.go': 'package main\n\nfunc main() {}',
    },
    'Node library': {
        'package.json': '{"name": "library", "version": "0.1.0"}',
        'src/index.js': 'export default {};',
    },
}
